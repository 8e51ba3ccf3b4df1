"""A claim of another executor with the same id and version, as after the database was set back: no fence meets it."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import transaction

from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.models import Success, Task, TaskRun
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, load
from django_delayed_tasks.store.claiming.compare_and_set import held_of
from django_delayed_tasks.store.records.progress import Report, write_progress
from django_delayed_tasks.store.schedules import recurrence
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.store.settling.settle import Wait, settle, settle_run
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.store import verbs
from tests.store.verbs import ALIAS, HOUR

pytestmark = pytest.mark.usefixtures("live_db")

OTHER = 2**52 - 1


@pytest.fixture
def run() -> ClaimedTask:
    """A run, whose row another executor holds by now, in the same version."""
    verbs.add()
    run = verbs.claim_one()
    held_by(OTHER)
    return run


def held_by(executor: int | None) -> None:
    Task._base_manager.update(executor=executor)


ENDS: dict[str, Callable[[ClaimedTask], Settlement]] = {
    "done": verbs.done,
    "done once": lambda run: verbs.done(run, once=True),
    "again": lambda run: verbs.again(run, HOUR),
    "recurs": lambda run: Settlement(run.claim, RunOutcome.DONE, NextState.RECUR, when=HOUR),
    "retried": verbs.retry,
    "failed": verbs.failed,
    "released": verbs.released,
    "rescued": lambda run: Settlement(run.claim, RunOutcome.LOST, NextState.RESCUED),
}


@pytest.mark.parametrize("wait", Wait)
@pytest.mark.parametrize("end", ENDS)
def test_no_end_is_written(run: ClaimedTask, end: str, wait: Wait) -> None:
    before = Task.objects.values().get()
    ended = settle(ALIAS, [ENDS[end](run)], wait)
    assert (ended.became, ended.waiting) == ({}, set())
    assert Task.objects.values().get() == before
    assert (TaskRun.objects.count(), Success.objects.count()) == (0, 0)


def test_nor_by_an_atomic_run(run: ClaimedTask) -> None:
    with transaction.atomic():
        assert not settle_run(ALIAS, run, verbs.done(run))
    assert verbs.present().status == TaskStatus.RUNNING


def test_nor_is_its_progress(run: ClaimedTask) -> None:
    written = write_progress(ALIAS, {run.claim: Report(0.5, "half")})
    assert (written.waiting, written.lost) == (set(), {run.claim})
    assert verbs.present().progress_fraction is None


def test_nothing_of_it_is_told(run: ClaimedTask) -> None:
    Task._base_manager.update(cancel_requested_at=verbs.present().create_time)
    assert not run.cancel_requested
    assert (load(ALIAS, run.claim), held_of(ALIAS, [run.claim])) == (None, set())
    with pytest.raises(ClaimLost):
        run.check_claim()


def test_a_claim_is_that_of_the_id_under_which_it_was_made(run: ClaimedTask) -> None:
    held_by(run.executor)
    assert load(ALIAS, run.claim) is not None
    assert held_of(ALIAS, [run.claim]) == {run.claim}
    assert verbs.settle(verbs.done(run)) == {run.claim: NextState.GONE}


@pytest.mark.parametrize("executor", [None, 0])
def test_what_no_executor_holds_is_reaped(run: ClaimedTask, executor: int | None) -> None:
    """A row that was written by other means."""
    held_by(executor)
    assert reap(ALIAS, max_rescues=3) == {run.claim._replace(executor=executor): NextState.RESCUED}
    assert verbs.outcomes() == [RunOutcome.LOST]


@pytest.mark.parametrize("executor", [None, 0])
def test_and_given_up(run: ClaimedTask, executor: int | None) -> None:
    held_by(executor)
    assert list(reap(ALIAS, max_rescues=0).values()) == [NextState.FAILED]
    assert verbs.present().status == TaskStatus.FAILED


@pytest.mark.parametrize("dead", [verbs.EXECUTOR, None])
def test_the_reaper_meets_no_stranger(run: ClaimedTask, dead: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row that it has read belongs to a live executor by the time it writes."""
    held_by(dead)
    identity = executors.Registration("alive", "host", 1, 1, ())
    alive = executors.register(ALIAS, identity, timedelta(minutes=5), lambda host, pid: False)
    usual = recurrence.read_now

    def read_now(alias: str) -> object:
        held_by(alive)
        return usual(alias)

    monkeypatch.setattr(recurrence, "read_now", read_now)
    assert reap(ALIAS, max_rescues=3) == {}
    assert (verbs.present().status, verbs.present().executor) == (TaskStatus.RUNNING, alive)
