"""Rescues are counted for one run; when it has ended in any other way, the next one begins with none."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection

from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.tables import TASK
from tests.store import verbs
from tests.store.verbs import ALIAS, CODE, NOW

pytestmark = pytest.mark.usefixtures("db", "frozen")


def recur(run: ClaimedTask) -> Settlement:
    return Settlement(run.claim, RunOutcome.DONE, NextState.RECUR, when=NOW)


def deferred(run: ClaimedTask) -> Settlement:
    verbs.add(when=NOW, biz_ext="new")
    return verbs.done(run)


FINISHED: dict[str, Callable[[ClaimedTask], Settlement]] = {
    "again": lambda run: verbs.again(run, timedelta()),
    "recurs": recur,
    "deferred meanwhile": deferred,
}


def rescued(times: int = 1) -> ClaimedTask:
    """A run of a task that has been rescued so often."""
    for _ in range(times):
        verbs.claim_one()
        assert list(reap(ALIAS, max_rescues=times).values()) == [NextState.RESCUED]
        Task._base_manager.update(claim_at=NOW)  # those that died together twice are spread
    run = verbs.claim_one()
    assert run.rescues == times
    return run


@pytest.mark.parametrize("end", FINISHED)
def test_a_run_that_ends_takes_its_rescues_with_it(end: str) -> None:
    verbs.add()
    verbs.settle(FINISHED[end](rescued()))
    assert verbs.present().rescues == 0


@pytest.mark.parametrize("end", FINISHED)
def test_a_task_that_recurs_for_ever_may_be_rescued_as_often_each_time(end: str) -> None:
    verbs.add()
    for _ in range(3):
        verbs.settle(FINISHED[end](rescued(2)))
    verbs.claim_one()
    assert list(reap(ALIAS, max_rescues=2).values()) == [NextState.RESCUED]


@pytest.mark.parametrize("mode", ["rescheduled", "replaced"])
def test_another_time_begins_with_none(mode: str) -> None:
    verbs.add()
    verbs.settle(verbs.retry(rescued()))
    assert verbs.present().rescues == 1
    if mode == "rescheduled":
        api.reschedule_task(CODE, "1", NOW)
    else:
        verbs.add(when=NOW)
    row = verbs.present()
    assert (row.rescues, row.attempts, row.last_error) == (0, 0, "")


def test_a_retry_is_of_the_same_run() -> None:
    verbs.add()
    verbs.settle(verbs.retry(rescued(), after=timedelta()))
    assert verbs.claim_one().rescues == 1


def test_a_release_is_of_the_same_run() -> None:
    verbs.add()
    verbs.settle(verbs.released(rescued()))
    assert verbs.claim_one().rescues == 1


def test_one_that_was_claimed_ahead_of_its_time_waits_for_it() -> None:
    """It was not started; rescued, it is not either before it is due."""
    soon = timedelta(seconds=2)
    verbs.add(when=NOW + soon)
    [_] = verbs.claim(ahead=2 * soon)
    assert list(reap(ALIAS, max_rescues=1).values()) == [NextState.RESCUED]
    assert verbs.present().claim_at == NOW + soon


def test_one_whose_trigger_cannot_be_read_does_not_keep_the_others_from_being_rescued() -> None:
    for num in ("broken", "plain"):
        verbs.add(num)
    verbs.claim()
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {TASK} SET trigger_text = %s WHERE biz_num = 'broken'", ["Never()"])
    assert list(reap(ALIAS, max_rescues=0).values()) == [NextState.FAILED] * 2
    assert set(Task.objects.values_list("status", flat=True)) == {TaskStatus.FAILED}
