"""A trigger that a handler declares, whose queue or priority alone changes in the code."""

from collections.abc import Iterator

import pytest

from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import NextState, RunOutcome
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
    TaskRow._base_manager.update(attempts=2, claim_at=retry_at)
    nightly(queue="reports", priority=5)
    start_at(12)
    row = TaskRow.objects.get()
    assert (row.queue, row.priority, row.version) == ("reports", 5, 1)
    assert (waits_for(), row.claim_at, row.attempts) == (10, retry_at, 2)


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
        settle("default", [Settlement(task.claim, RunOutcome.DONE, NextState.RECUR, when=NOON + 20 * MINUTE)])
    row = TaskRow.objects.get()
    assert (row.trigger, row.queue, row.priority) == (trigger, "reports", 5)
    assert waits_for() == (19 if is_deferred else 20)
