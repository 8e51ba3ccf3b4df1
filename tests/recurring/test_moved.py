"""A trigger that a handler declares, whose queue or priority alone changes in the code."""

from collections.abc import Iterator

import pytest

from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.executor.membership.recurrences import Recurrences
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import RunOutcome, TaskStatus, Then
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.triggers import Interval
from tests.executor.parts import claim, registered
from tests.recurring.machine import MINUTE, NOON
from tests.recurring.test_handlers import EVERY_TEN, nightly, start_at, waits_for

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    with registry.preserved():
        yield


def test_another_queue_or_priority_leaves_its_time_and_its_retry() -> None:
    nightly()
    start_at(0)
    retry_at = NOON + 15 * MINUTE
    TaskRow.objects.update(attempts=2, claim_at=retry_at)
    nightly(queue="reports", priority=5)
    start_at(12)
    row = TaskRow.objects.get()
    assert (row.queue, row.priority, row.version) == ("reports", 5, 1)
    assert (waits_for(), row.claim_at, row.attempts) == (10, retry_at, 2)


@pytest.mark.parametrize("changes", [{}, {"priority": 5}])
def test_one_that_has_failed_recurs_again(changes: dict[str, int]) -> None:
    """As after an executor with older code could not read its trigger."""
    nightly()
    start_at(0)
    TaskRow.objects.update(status=TaskStatus.FAILED)
    nightly(**changes)
    start_at(12)
    assert (TaskRow.objects.get().status, waits_for()) == (TaskStatus.PENDING, 22)


def test_so_it_does_while_an_executor_confirms_it() -> None:
    nightly()
    start_at(0)
    TaskRow.objects.update(status=TaskStatus.FAILED)
    with frozen_at(NOON + 12 * MINUTE):
        Recurrences("default").confirm()
    assert (TaskRow.objects.get().status, waits_for()) == (TaskStatus.PENDING, 22)


@pytest.mark.parametrize("trigger", [Interval(minutes=7), Interval(minutes=10, end=NOON + 11 * MINUTE)])
def test_but_not_by_another_trigger_nor_by_one_that_has_ended(trigger: Interval) -> None:
    """As one of an executor with older code, while a deploy lasts."""
    nightly(trigger if trigger.end else EVERY_TEN)
    start_at(0)
    TaskRow.objects.update(status=TaskStatus.FAILED)
    nightly(trigger)
    with frozen_at(NOON + 12 * MINUTE):
        Recurrences("default").confirm()
    assert TaskRow.objects.get().status == TaskStatus.FAILED


@pytest.mark.parametrize("is_deferred", [False, True])
def test_while_it_runs_too(is_deferred: bool) -> None:
    nightly()
    start_at(0)
    with frozen_at(NOON + 10 * MINUTE):
        [task] = claim(registered())
    trigger = Interval(minutes=7) if is_deferred else EVERY_TEN
    nightly(trigger)
    start_at(12)
    nightly(trigger, queue="reports", priority=5)
    start_at(13)
    with frozen_at(NOON + 14 * MINUTE):
        settle("default", [Settlement(task.claim, RunOutcome.DONE, Then.RECUR, when=NOON + 20 * MINUTE)])
    row = TaskRow.objects.get()
    assert (row.trigger, row.queue, row.priority) == (trigger, "reports", 5)
    assert waits_for() == (19 if is_deferred else 20)
