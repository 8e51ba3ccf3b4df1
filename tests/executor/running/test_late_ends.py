"""A run that timed out may end later. Its end writes nothing, whatever has become of its task in the meantime."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks import api
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.atomic_runs import effects, write
from tests.executor.parts import add, claim, claim_one, handler_of, registered
from tests.executor.runs import run_one
from tests.threads import in_thread

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]

HOUR = timedelta(hours=1)


def claim_again() -> None:
    [task] = claim(registered("another"))
    assert task.biz_num == "1"


def cancel() -> None:
    assert api.cancel_task("code", "1")


def cancel_and_add() -> None:
    cancel()
    add()


def cancel_and_claim() -> None:
    cancel_and_add()
    claim_again()


MEANWHILE: dict[str, Callable[[], object]] = {
    "waits": lambda: None,
    "runs again": claim_again,
    "is moved": lambda: api.reschedule_task("code", "1", HOUR),
    "is replaced": lambda: add(biz_ext="new"),
    "is cancelled": cancel,
    "is another": cancel_and_add,
    "is another and runs": cancel_and_claim,
}


def time_out(task: ClaimedTask, then: NextState, meanwhile: str) -> None:
    """Settle the run as the watchdog does; then do what happens to the task."""
    outcome = RunOutcome.RETRIED if then is NextState.RETRY else RunOutcome.FAILED
    assert settle("default", [Settlement(task.claim, outcome, then, error="TaskTimeout")]).became
    assert Task.objects.get(id=task.id).version == task.version
    MEANWHILE[meanwhile]()


def rows() -> list[Any]:
    return [list(model._default_manager.order_by("id").values()) for model in (Task, TaskRun)]


END_OF = {
    NextState.GONE: RunOutcome.DONE, NextState.AGAIN: RunOutcome.RESCHEDULED, NextState.RETRY: RunOutcome.RETRIED,
    NextState.FAILED: RunOutcome.FAILED,
}  # fmt: skip


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_of_a_plain_run(meanwhile: str) -> None:
    task = claim_one()
    time_out(task, NextState.RETRY, meanwhile)
    before = rows()
    for then, outcome in END_OF.items():
        assert settle("default", [Settlement(task.claim, outcome, then, when=HOUR)]).became == {}
    assert rows() == before


@pytest.mark.parametrize("meanwhile", ["waits", "is moved", "is replaced", "is cancelled"])
def test_of_one_that_has_failed(meanwhile: str) -> None:
    task = claim_one()
    time_out(task, NextState.FAILED, meanwhile)
    before = rows()
    assert settle("default", [Settlement(task.claim, RunOutcome.DONE, NextState.GONE)]).became == {}
    assert rows() == before


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_of_one_in_a_batch(meanwhile: str) -> None:
    add("1")
    add("2")
    late, good = claim(registered())
    time_out(late, NextState.RETRY, meanwhile)
    before = list(Task.objects.exclude(id=good.id).order_by("id").values())
    ends = [Settlement(task.claim, RunOutcome.DONE, NextState.GONE) for task in (late, good)]
    assert settle("default", ends).became == {good.claim: NextState.GONE}
    assert list(Task.objects.order_by("id").values()) == before
    assert TaskRun.objects.filter(outcome=RunOutcome.DONE).get().biz_num == "2"


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_of_an_atomic_run(meanwhile: str) -> None:
    """What the handler has written is rolled back."""
    before: list[Any] = []

    def handle(task: Any) -> None:
        if connection.vendor != "sqlite":  # where a transaction that has read cannot write after another one has
            in_thread(lambda: time_out(task, NextState.RETRY, meanwhile))
            before.extend(rows())
        write()

    task = claim_one()
    if connection.vendor == "sqlite":
        time_out(task, NextState.RETRY, meanwhile)
        before.extend(rows())
    left = run_one(task, handler_of(handle, atomic=True), DatabaseClock())
    assert left
    assert settle("default", [left]).became == {}
    assert effects() == []
    assert rows() == before


def test_the_next_claim_has_a_greater_version() -> None:
    task = claim_one()
    time_out(task, NextState.RETRY, "runs again")
    row = Task.objects.get()
    assert (row.status, row.version) == (TaskStatus.RUNNING, task.version + 1)
