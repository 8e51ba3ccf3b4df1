"""What a run of a recurring task leaves to the next one."""

from collections.abc import Callable

import pytest

from django_delayed_tasks import Done, Fail, reschedule_task
from django_delayed_tasks.models import Task as TaskRow
from tests.recurring.machine import MINUTE, NOON, Machine

pytestmark = pytest.mark.django_db


def test_state_is_carried_from_run_to_run(machine: Machine) -> None:
    machine.answers = [Done(biz_ext={"count": 1}), Done(), None, Done(biz_ext=None)]
    machine.add(biz_ext={"count": 0})
    for minute in (10, 20, 30, 40, 50):
        machine.run_at(minute)
    assert [ext for _, ext in machine.seen] == [{"count": 0}, {"count": 1}, {"count": 1}, {"count": 1}, None]


def test_state_is_carried_past_another_time_that_came_during_the_run(machine: Machine) -> None:
    machine.answers = [Done(biz_ext={"count": 1}), Done(), RuntimeError(), Done(biz_ext=None), Fail("no")]
    machine.add(biz_ext={"count": 0})
    machine.meanwhile = lambda: reschedule_task("recurring", "1", machine.clock.now() + MINUTE)
    for minute in range(10, 16):
        machine.run_at(minute)
    ones = [(minute, {"count": 1}) for minute in (11, 12, 13)]
    assert machine.seen == [(10, {"count": 0}), *ones, (14, None), (15, None)]


@pytest.mark.parametrize("rescheduled", ["before", "after"])
def test_data_that_came_during_the_run_is_newer(machine: Machine, rescheduled: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "another time": lambda: reschedule_task("recurring", "1", NOON + 12 * MINUTE),
        "new data": lambda: machine.add(biz_ext="new"),
    }
    order = list(calls) if rescheduled == "before" else list(calls)[::-1]
    machine.answers = [Done(biz_ext="left")]
    machine.add()
    machine.meanwhile = lambda: [calls[name]() for name in order]
    machine.run_at(10)
    assert TaskRow.objects.get().biz_ext == "new"


@pytest.mark.parametrize("rescheduled", ["before", "after"])
def test_data_that_came_during_the_run_is_newer_though_it_is_what_the_run_had(
    machine: Machine, rescheduled: str
) -> None:
    """Another time alone keeps what the run leaves; once an add has said what the data are, it says nothing of them."""

    def meanwhile() -> None:
        if rescheduled == "after":
            machine.add(biz_ext="same")
        reschedule_task("recurring", "1", NOON + 12 * MINUTE)
        if rescheduled == "before":
            machine.add(biz_ext="same")

    machine.answers = [Done(biz_ext="left")]
    machine.add(biz_ext="same")
    machine.meanwhile = meanwhile
    machine.run_at(10)
    assert TaskRow.objects.get().biz_ext == "same"


@pytest.mark.parametrize("stale", [False, True])
def test_data_from_an_older_release_during_the_run_count(machine: Machine, stale: bool) -> None:
    """In a rolling deploy: it knows nothing of the mark, neither during this run nor during the one before."""
    machine.answers = [Done(biz_ext="left")]
    machine.add(biz_ext="first")
    if stale:
        TaskRow._base_manager.update(deferred_keeps_ext=True)
    machine.meanwhile = lambda: [
        stale or reschedule_task("recurring", "1", NOON + 15 * MINUTE),
        TaskRow._base_manager.update(
            deferred_when=NOON + 12 * MINUTE, deferred_biz_ext="new", deferred_trigger_text=None
        ),
    ]
    machine.run_at(10)
    task = TaskRow.objects.get()
    assert (task.biz_ext, task.deferred_keeps_ext) == ("new", None)
    assert (task.queue, task.priority) == ("default", 0)
