"""Tasks that recur: one row, whose next time is written by whatever ends a run."""

from typing import Any

import pytest

from django_delayed_tasks import Fail, Reschedule, Task, TaskRun, add_task, api
from django_delayed_tasks.clock import DatabaseClock, frozen_at
from django_delayed_tasks.exceptions import InvalidTask, InvalidTrigger
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.triggers import Cron, Interval, Once
from tests.executor.parts import claim
from tests.executor.runs import run_one
from tests.recurring.machine import EVERY_TEN, MINUTE, NOON, Machine

pytestmark = pytest.mark.django_db


def test_the_first_time_is_after_the_task_came_to_be(machine: Machine) -> None:
    machine.add(Cron("*/10 * * * *", tz="UTC"))
    assert machine.next == 10


def test_a_first_time_of_its_own(machine: Machine) -> None:
    machine.add(when=NOON + 3 * MINUTE)
    assert machine.run_at(2) is None
    machine.run_at(3)
    assert (machine.seen, machine.next) == ([(3, None)], 13)


def test_it_fires_once_for_each_time(machine: Machine) -> None:
    machine.add()
    for minute in range(51):
        machine.run_at(minute)
    assert [when for when, _ in machine.seen] == [10, 20, 30, 40, 50]
    assert TaskRow.objects.count() == 1


def test_the_time_is_the_scheduled_one_however_late(machine: Machine) -> None:
    machine.add()
    machine.run_at(12)
    assert (machine.seen, machine.next) == ([(10, None)], 20)


def test_one_run_for_all_that_were_missed(machine: Machine) -> None:
    machine.add()
    machine.run_at(47)
    assert (machine.seen, machine.next) == ([(40, None)], 50)


def test_each_that_was_missed(machine: Machine) -> None:
    machine.add(Interval(minutes=10, misfire="catch_up"))
    while machine.run_at(47):
        pass
    assert [when for when, _ in machine.seen] == [10, 20, 30, 40]


def test_none_that_was_missed(machine: Machine) -> None:
    machine.add(Interval(minutes=10, misfire="skip"))
    assert machine.run_at(47) is NextState.RECUR
    assert (machine.seen, machine.next) == ([], 50)
    assert TaskRun.objects.get().outcome == RunOutcome.EXPIRED


def test_no_pile_up_during_a_run(machine: Machine) -> None:
    machine.add()
    machine.run_at(10, takes=35 * MINUTE)
    assert machine.next == 40
    machine.run_at(45)
    assert machine.next == 50


def test_from_finish_to_start(machine: Machine) -> None:
    machine.add(Interval(minutes=10, every="finish"))
    machine.run_at(10, takes=2 * MINUTE)
    assert machine.next == 22


def test_failure_does_not_end_it(machine: Machine) -> None:
    machine.handler.max_attempts = 2
    machine.answers = [ValueError("one"), ValueError("two")]
    machine.add()
    assert machine.run_at(10) is NextState.RETRY
    assert machine.run_at(11) is NextState.RECUR
    task = TaskRow.objects.get()
    assert (task.status, task.attempts, machine.next) == (TaskStatus.PENDING, 0, 20)
    assert "two" in task.last_error
    assert machine.run_at(20) is NextState.RECUR
    assert TaskRow.objects.get().last_error == ""
    assert list(TaskRun.objects.order_by("id").values_list("outcome", flat=True)) == [
        RunOutcome.RETRIED,
        RunOutcome.FAILED,
        RunOutcome.DONE,
    ]


def test_nor_does_a_fail(machine: Machine) -> None:
    machine.answers = [Fail("no")]
    machine.add()
    assert machine.run_at(10) is NextState.RECUR
    assert machine.next == 20


def test_reschedule_is_a_time_in_between(machine: Machine) -> None:
    machine.answers = [Reschedule(NOON + 13 * MINUTE, biz_ext="soon")]
    machine.add()
    machine.run_at(10)
    assert machine.next == 13
    machine.run_at(13)
    assert machine.next == 23
    assert machine.seen == [(10, None), (13, "soon")]


def test_the_last_time(machine: Machine) -> None:
    machine.add(Interval(minutes=10, end=NOON + 25 * MINUTE))
    machine.run_at(10)
    assert machine.run_at(20) is NextState.GONE
    assert not TaskRow.objects.exists()


def test_run_now_starts_no_second_chain(machine: Machine) -> None:
    machine.add(Cron("*/10 * * * *", tz="UTC"))
    TaskRow._base_manager.update(claim_at=NOON)  # as the admin does
    machine.run_at(4)
    assert (machine.seen, machine.next) == ([(4, None)], 10)
    machine.run_at(10)
    assert machine.next == 20


def test_an_add_while_it_runs_replaces_it(machine: Machine) -> None:
    machine.add()
    with frozen_at(NOON + 10 * MINUTE):
        [task] = claim(machine.executor)
        add_task(Task(biz_code="recurring", biz_num="1", trigger=Interval(minutes=7)))
        settlement = run_one(task, machine.handler, DatabaseClock())
        assert settlement
        assert settle("default", [settlement]).became == {task.claim: NextState.AGAIN}
    assert machine.next == 17
    assert TaskRow.objects.get().trigger == Interval(minutes=7)


def test_an_add_without_a_trigger_ends_the_recurrence(machine: Machine) -> None:
    machine.add()
    machine.add(trigger=None, when=NOON + 5 * MINUTE)
    assert machine.run_at(5) is NextState.GONE


def test_cancelled_while_it_runs_it_is_gone(machine: Machine) -> None:
    machine.add()
    with frozen_at(NOON + 10 * MINUTE):
        [task] = claim(machine.executor)
        api.cancel_task("recurring", "1")
        settlement = run_one(task, machine.handler, DatabaseClock())
        assert settlement
        assert settle("default", [settlement]).became == {task.claim: NextState.GONE}


def test_killed_too_often_it_waits_for_its_next_time(machine: Machine) -> None:
    machine.add()
    with frozen_at(NOON + 10 * MINUTE):
        claim(machine.executor + 1000)
        assert set(reap("default", max_rescues=0).values()) == {NextState.RECUR}
    assert (machine.next, TaskRow.objects.get().status) == (20, TaskStatus.PENDING)


def test_a_trigger_that_cannot_be_read_fails_visibly_and_alone(machine: Machine) -> None:
    machine.add()
    TaskRow._base_manager.update(trigger="Cron('so it goes')")
    assert machine.run_at(10) is NextState.FAILED
    assert "so it goes" in TaskRow.objects.get().last_error


class TestExpiry:
    def test_a_task_that_would_start_too_late(self, machine: Machine) -> None:
        machine.add(trigger=None, when=NOON, expires_at=NOON + 5 * MINUTE)
        assert machine.run_at(6) is NextState.GONE
        assert machine.seen == []
        [history] = TaskRun.objects.all()
        assert (history.outcome, history.started) == (RunOutcome.EXPIRED, None)
        assert "expired" in history.error

    def test_in_time_it_runs(self, machine: Machine) -> None:
        machine.add(trigger=None, when=NOON, expires_at=5 * MINUTE)
        machine.run_at(5)
        assert machine.seen == [(0, None)]

    def test_max_lateness_of_the_handler(self, machine: Machine) -> None:
        machine.handler.max_lateness = 60
        machine.add(trigger=None, when=NOON)
        assert machine.run_at(2) is NextState.GONE
        assert machine.seen == []

    def test_a_recurring_one_continues(self, machine: Machine) -> None:
        machine.handler.max_lateness = 60
        machine.add()
        assert machine.run_at(12) is NextState.RECUR
        assert (machine.seen, machine.next) == ([], 20)


class TestPause:
    def test_nothing_is_claimed_until_it_is_resumed(self, machine: Machine) -> None:
        machine.add()
        assert api.pause_task("recurring", "1")
        assert machine.run_at(47) is None
        with frozen_at(NOON + 48 * MINUTE):
            assert api.resume_task("recurring", "1")
        assert machine.next == 50
        assert not api.resume_task("recurring", "1")

    def test_a_run_in_progress_is_allowed_to_finish(self, machine: Machine) -> None:
        machine.add()
        with frozen_at(NOON + 10 * MINUTE):
            [task] = claim(machine.executor)
            assert api.pause_task("recurring", "1")
            settlement = run_one(task, machine.handler, DatabaseClock())
            assert settlement
            settle("default", [settlement])
        assert (TaskRow.objects.get().status, machine.next) == (TaskStatus.PAUSED, 20)

    def test_resumed_before_the_run_has_ended(self, machine: Machine) -> None:
        machine.add()
        with frozen_at(NOON + 10 * MINUTE):
            [task] = claim(machine.executor)
            api.pause_task("recurring", "1")
            assert api.resume_task("recurring", "1")
            settlement = run_one(task, machine.handler, DatabaseClock())
            assert settlement
            settle("default", [settlement])
        assert TaskRow.objects.get().status == TaskStatus.PENDING

    def test_an_add_ends_it(self, machine: Machine) -> None:
        machine.add()
        api.pause_task("recurring", "1")
        machine.add()
        assert TaskRow.objects.get().status == TaskStatus.PENDING

    def test_a_task_that_happens_once_is_due_when_it_is_resumed(self, machine: Machine) -> None:
        machine.add(trigger=None, when=NOON)
        api.pause_task("recurring", "1")
        with frozen_at(NOON + 5 * MINUTE):
            api.resume_task("recurring", "1")
        machine.run_at(5)
        assert machine.seen == [(0, None)]

    def test_there_is_none(self, machine: Machine) -> None:
        assert not api.pause_task("recurring", "1")
        assert not api.resume_task("recurring", "1")


@pytest.mark.parametrize("trigger", ["Cron('61 * * * *')", "every day", 5, "Interval(minutes=0)"])
def test_a_bad_trigger_is_refused_by_add_task(machine: Machine, trigger: Any) -> None:
    with pytest.raises(InvalidTrigger):
        machine.add(trigger)
    assert not TaskRow.objects.exists()


def test_a_trigger_whose_times_are_over_is_refused(machine: Machine) -> None:
    with pytest.raises(InvalidTrigger, match="no time after now"):
        machine.add(Once(NOON))


def test_a_bad_expiry_is_refused(machine: Machine) -> None:
    with pytest.raises(InvalidTask, match="expires_at"):
        machine.add(expires_at="tomorrow")


def test_many_at_once(machine: Machine) -> None:
    with frozen_at(NOON):
        api.add_tasks(Task(biz_code="recurring", biz_num=str(n), trigger=EVERY_TEN) for n in range(3))
    assert {(task.when - NOON) / MINUTE for task in TaskRow.objects.all()} == {10}
