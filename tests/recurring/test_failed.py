"""A task that a handler declares, and that has FAILED: it recurs again if its trigger has further times."""

from collections.abc import Iterator

import pytest

from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.executor.membership.recurrences import Recurrences
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.triggers import Interval
from tests.recurring.machine import MINUTE, NOON
from tests.recurring.test_handlers import EVERY_TEN, nightly, start_at, waits_for

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    with registry.preserved():
        yield


@pytest.mark.parametrize("changes", [{}, {"priority": 5}])
def test_one_that_has_failed_recurs_again(changes: dict[str, int]) -> None:
    """As after an executor with older code could not read its trigger."""
    nightly()
    start_at(0)
    TaskRow._base_manager.update(status=TaskStatus.FAILED)
    nightly(**changes)
    start_at(12)
    assert (TaskRow.objects.get().status, waits_for()) == (TaskStatus.PENDING, 22)


def test_so_it_does_while_an_executor_confirms_it() -> None:
    nightly()
    start_at(0)
    TaskRow._base_manager.update(status=TaskStatus.FAILED)
    with frozen_at(NOON + 12 * MINUTE):
        Recurrences("default").confirm()
    assert (TaskRow.objects.get().status, waits_for()) == (TaskStatus.PENDING, 22)


@pytest.mark.parametrize("trigger", [Interval(minutes=7), Interval(minutes=10, end=NOON + 11 * MINUTE)])
def test_but_not_by_another_trigger_nor_by_one_that_has_ended(trigger: Interval) -> None:
    """As one of an executor with older code, while a deploy lasts."""
    nightly(trigger if trigger.end else EVERY_TEN)
    start_at(0)
    TaskRow._base_manager.update(status=TaskStatus.FAILED)
    nightly(trigger)
    with frozen_at(NOON + 12 * MINUTE):
        Recurrences("default").confirm()
    assert TaskRow.objects.get().status == TaskStatus.FAILED
