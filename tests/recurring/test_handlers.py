"""Triggers that handlers declare: one row, whatever number of executors start; it follows the code."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from django_delayed_tasks import Task, TaskRun, add_task, api
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.executor.membership.recurrences import Recurrences
from django_delayed_tasks.handlers import TaskHandler, register_task_handler, registry
from django_delayed_tasks.models import Recurrence
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.triggers import Interval
from tests.executor.parts import claim, executing, handler_of, registered
from tests.races.blocking import wait_until_blocked
from tests.recurring.machine import MINUTE, NOON
from tests.threads import start_thread
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

EVERY_TEN = Interval(minutes=10)


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    with registry.preserved():
        registry.clear()
        yield


def nightly(trigger: Any = EVERY_TEN, **attributes: Any) -> TaskHandler:
    """A handler of the code "nightly" in this release of the code."""
    registry.clear()
    return handler_of(lambda task: None, code="nightly", trigger=trigger, **attributes)


def start_at(minute: float) -> None:
    """An executor starts, with the handlers that are registered."""
    with frozen_at(NOON + minute * MINUTE):
        Recurrences("default").declare()


def waits_for() -> float:
    return (TaskRow.objects.get().when - NOON) / MINUTE


def test_the_row_exists_after_the_start() -> None:
    nightly(queue="reports", priority=7)
    start_at(0)
    task = TaskRow.objects.get()
    assert (task.biz_code, task.biz_num, task.queue, task.priority) == ("nightly", "recurring", "reports", 7)
    assert (task.trigger, task.by_handler, waits_for()) == (EVERY_TEN, True, 10)


def test_a_later_start_changes_nothing() -> None:
    nightly()
    start_at(0)
    start_at(4)
    assert (waits_for(), TaskRow.objects.get().version) == (10, 0)


def test_another_trigger_is_another_beginning() -> None:
    """What the last run left to its next attempt is not counted for the new times."""
    nightly()
    start_at(0)
    TaskRow._base_manager.update(attempts=2, rescues=1)
    nightly(Interval(minutes=7))
    start_at(4)
    task = TaskRow.objects.get()
    assert (task.attempts, task.rescues) == (0, 0)


def test_it_follows_the_code() -> None:
    nightly()
    start_at(0)
    nightly(Interval(minutes=7))
    start_at(4)
    assert (waits_for(), TaskRow.objects.get().trigger) == (11, Interval(minutes=7))


def test_while_it_runs_the_change_waits_for_the_end() -> None:
    nightly()
    start_at(0)
    with frozen_at(NOON + 10 * MINUTE):
        [task] = claim(registered())
    nightly(Interval(minutes=7))
    start_at(12)
    assert TaskRow.objects.get().status == TaskStatus.RUNNING
    with frozen_at(NOON + 13 * MINUTE):
        settle("default", [Settlement(task.claim, RunOutcome.DONE, NextState.RECUR, when=NOON + 20 * MINUTE)])
    row = TaskRow.objects.get()
    assert (waits_for(), row.trigger, row.by_handler) == (19, Interval(minutes=7), True)


def test_changed_and_changed_back_while_it_runs() -> None:
    nightly()
    start_at(0)
    with frozen_at(NOON + 10 * MINUTE):
        [task] = claim(registered())
    for trigger in (Interval(minutes=7), EVERY_TEN):
        nightly(trigger)
        start_at(12)
    with frozen_at(NOON + 13 * MINUTE):
        settle("default", [Settlement(task.claim, RunOutcome.DONE, NextState.RECUR, when=NOON + 20 * MINUTE)])
    assert (waits_for(), TaskRow.objects.get().trigger) == (22, EVERY_TEN)


@pytest.mark.parametrize("gone", [False, True])
def test_what_the_run_leaves_outlives_a_change_meanwhile(gone: bool) -> None:
    nightly()
    start_at(0)
    with frozen_at(NOON + 10 * MINUTE):
        [task] = claim(registered())
    if gone:
        nightly(None)
        start_at(11)
    for minutes in (7, 9):
        nightly(Interval(minutes=minutes))
        start_at(12)
    with frozen_at(NOON + 13 * MINUTE):
        settle("default", [Settlement(task.claim, RunOutcome.DONE, NextState.RECUR, when=NOON, biz_ext='"left"')])
    assert (waits_for(), TaskRow.objects.get().biz_ext) == (21, "left")


def test_gone_and_back_while_it_runs() -> None:
    nightly()
    start_at(0)
    with frozen_at(NOON + 10 * MINUTE):
        [task] = claim(registered())
    nightly(None)
    start_at(11)
    nightly()
    start_at(12)
    with frozen_at(NOON + 13 * MINUTE):
        settle("default", [Settlement(task.claim, RunOutcome.DONE, NextState.RECUR, when=NOON + 20 * MINUTE)])
    assert (waits_for(), TaskRow.objects.get().by_handler) == (22, True)


def test_changed_and_gone_while_it_runs() -> None:
    nightly()
    start_at(0)
    with frozen_at(NOON + 10 * MINUTE):
        [task] = claim(registered())
    for trigger in (Interval(minutes=7), None):
        nightly(trigger)
        start_at(12)
    assert settle("default", [Settlement(task.claim, RunOutcome.DONE, NextState.GONE)]).became == {
        task.claim: NextState.GONE
    }
    assert not TaskRow.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_person_who_adds_it_at_the_same_moment_is_not_its_handler() -> None:
    """The declaring thread has seen no row, and waits for the person's."""
    nightly()
    with transaction.atomic():
        with frozen_at(NOON):
            add_task(Task(biz_code="nightly", biz_num="recurring", trigger=Interval(hours=3)))
        declaring = start_thread(lambda: Recurrences("default").declare())
        wait_until_blocked(declaring)
    declaring.result()
    task = TaskRow.objects.get()
    assert (task.trigger, task.by_handler) == (Interval(hours=3), None)


def test_a_paused_one_stays_paused() -> None:
    nightly()
    start_at(0)
    api.pause_task("nightly", "recurring")
    nightly(Interval(minutes=7))
    start_at(4)
    assert TaskRow.objects.get().status == TaskStatus.PAUSED


def test_what_a_person_made_of_it_is_left_alone() -> None:
    nightly()
    start_at(0)
    with frozen_at(NOON):
        add_task(Task(biz_code="nightly", biz_num="recurring", trigger=Interval(hours=3)))
    start_at(4)
    assert TaskRow.objects.get().trigger == Interval(hours=3)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_persons_task_that_runs_for_the_last_time_is_as_none(cancelled: bool) -> None:
    """The next start of an executor may be days away: the handler's task follows the run."""
    nightly(queue="reports")
    with frozen_at(NOON):
        add_task(Task(biz_code="nightly", biz_num="recurring", biz_ext="a person's"))
        [task] = claim(registered(), queue="reports")
        if cancelled:
            api.cancel_task("nightly", "recurring")
    start_at(4)
    became = settle("default", [Settlement(task.claim, RunOutcome.DONE, NextState.GONE)]).became
    assert became == {task.claim: NextState.AGAIN if cancelled else NextState.GONE}
    found = [(task.trigger, task.by_handler, task.biz_ext) for task in TaskRow.objects.all()]
    assert found == ([(EVERY_TEN, True, None)] if cancelled else [])
    start_at(5)
    assert waits_for() == (14 if cancelled else 15)


def test_a_change_begins_with_nothing_counted() -> None:
    """What was counted belongs to the time before."""
    nightly()
    start_at(0)
    TaskRow._base_manager.update(attempts=2, rescues=1, last_error="no")
    nightly(Interval(minutes=7))
    start_at(4)
    assert TaskRow.objects.values_list("attempts", "rescues", "last_error").get() == (0, 0, "")


def test_a_handler_that_loses_its_trigger() -> None:
    nightly()
    start_at(0)
    nightly(None)
    start_at(4)
    assert not TaskRow.objects.exists()
    assert not Recurrence.objects.exists()
    assert TaskRun.objects.get().outcome == RunOutcome.CANCELLED


def test_one_that_gets_it_back() -> None:
    nightly()
    start_at(0)
    nightly(None)
    start_at(4)
    nightly()
    start_at(5)
    assert waits_for() == 15


def test_the_text_of_a_trigger_is_one() -> None:
    """Written in its own way, it is still the same trigger as before."""
    nightly("Interval( minutes = 10 )")
    start_at(0)
    assert (TaskRow.objects.get().trigger, TaskRow.objects.get().by_handler, waits_for()) == (EVERY_TEN, True, 10)
    nightly(EVERY_TEN)
    start_at(4)
    Recurrences("default").confirm()
    assert (waits_for(), TaskRow.objects.get().version) == (10, 0)


def test_the_text_of_a_trigger_is_confirmed() -> None:
    nightly("Interval(minutes=10)")
    Recurrences("default").confirm()
    assert TaskRow.objects.get().trigger == EVERY_TEN


@pytest.mark.django_db(transaction=True)
def test_five_start_at_once() -> None:
    nightly()
    with transaction.atomic():
        Recurrence.objects.create(biz_code="other", trigger_text="x", declared_at=NOON)  # SQLite: they all wait
        threads = [start_thread(lambda: Recurrences("default").declare()) for _ in range(5)]
    for thread in threads:
        thread.result()
    assert TaskRow.objects.count() == 1
    assert TaskRow.objects.get().version == 0


@pytest.mark.django_db(transaction=True)
def test_an_executor_does_it() -> None:
    seen: list[Any] = []

    class Ticking(TaskHandler):
        biz_code = "ticking"
        trigger = Interval(seconds=0.05)

        def handle(self, task: Any) -> None:
            seen.append(task.when)

    register_task_handler(Ticking)
    with executing():
        wait_until(lambda: len(seen) >= 5)
    assert seen == sorted(set(seen))
    assert TaskRow.objects.get().status == TaskStatus.PENDING


def test_another_queue_is_followed_too() -> None:
    nightly()
    start_at(0)
    nightly(queue="reports")
    start_at(4)
    assert TaskRow.objects.get().queue == "reports"
