"""The fixture of the pytest plugin; ``tests/outside`` has it installed in a project of its own."""

from datetime import UTC, datetime, timedelta
from types import ModuleType

import pytest
import time_machine
from django.utils import timezone

from django_delayed_tasks import testing
from django_delayed_tasks.testing.pytest_plugin import kit
from tests.executor.parts import add, handler_of

NOON = datetime(2031, 3, 1, 12, tzinfo=UTC)


def test_it_is_the_kit(delayed_tasks: ModuleType) -> None:
    assert delayed_tasks is testing
    handler_of(lambda task: None)
    add(when=timedelta(days=3))
    delayed_tasks.assert_scheduled("code", "1", when=timedelta(days=3))
    assert len(delayed_tasks.run_until(timedelta(days=4))) == 1


def test_a_library_that_moves_the_clock_moves_that_of_the_database(delayed_tasks: ModuleType) -> None:
    seen: list[datetime] = []
    handler_of(lambda task: seen.append(timezone.now()))
    with time_machine.travel(NOON, tick=False):
        add(when=timedelta(hours=1))
    with time_machine.travel(NOON + timedelta(hours=1), tick=False):
        delayed_tasks.run_due_tasks()
    assert seen == [NOON + timedelta(hours=1)]


@pytest.mark.django_db
def test_a_fault_that_is_left_fails_the_test() -> None:
    handler_of(lambda task: None)
    with pytest.raises(AssertionError, match="no run has met the fault that was planned for code"), kit():
        testing.fail_next("code", ValueError)


@pytest.mark.django_db
def test_a_fault_that_was_met_does_not() -> None:
    handler_of(lambda task: None)
    add()
    with kit():
        testing.fail_next("code", ValueError)
        testing.run_due_tasks()
