"""``run_until``: through every moment at which a task becomes due, with the clocks set to it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_delayed_tasks import (
    Cron,
    Done,
    Interval,
    Reschedule,
    Task,
    TaskException,
    TaskHandler,
    add_task,
    pause_queue,
    register_task_handler,
    resume_queue,
)
from django_delayed_tasks.handlers.registry import withdraw
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.testing import Runs, declare_recurring, run_due_tasks, run_until, travel
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, handler_of

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DONE, RETRIED, FAILED = RunOutcome.DONE, RunOutcome.RETRIED, RunOutcome.FAILED


def after(runs: Runs, start: datetime = NOON) -> list[timedelta]:
    """When the runs started, from ``start`` on."""
    return [run.started - start for run in runs if run.started]


def test_three_days_later_it_is_over() -> None:
    seen: list[datetime] = []
    handler_of(lambda task: seen.append(timezone.now()))
    with travel(to=NOON):
        add("ends", when=3 * DAY)
        add("is not over", when=5 * DAY)
        runs = run_until(4 * DAY)

    assert runs.outcomes == [("code", "ends", DONE)]
    assert seen == [NOON + 3 * DAY]


def test_each_runs_at_its_time() -> None:
    seen: list[tuple[str, datetime]] = []
    handler_of(lambda task: seen.append((task.biz_num, timezone.now())))
    with travel(to=NOON):
        for number, hours in (("c", 5), ("a", 0), ("b", 2)):
            add(number, when=hours * HOUR)
        runs = run_until(NOON + 5 * HOUR)

    assert seen == [("a", NOON), ("b", NOON + 2 * HOUR), ("c", NOON + 5 * HOUR)]
    assert [run.when for run in runs] == [NOON, NOON + 2 * HOUR, NOON + 5 * HOUR]


def test_the_clock_stays_at_the_end_of_a_journey() -> None:
    handler_of(lambda task: None)
    with travel(to=NOON) as journey:
        run_until(HOUR)
        assert journey.now == timezone.now() == NOON + HOUR
        add(when=HOUR)
        assert Task.objects.get().when == NOON + 2 * HOUR


def test_without_a_journey_the_clock_returns() -> None:
    handler_of(lambda task: None)
    before = timezone.now()
    add(when=3 * DAY)
    [run] = run_until(4 * DAY)
    assert before + 3 * DAY <= run.when
    assert timezone.now() < before + DAY


def test_retries_come_after_their_back_off() -> None:
    def handle(task: Any) -> None:
        raise ValueError("no")

    handler_of(handle, max_attempts=3, backoff=lambda self, attempt: attempt * MINUTE)
    with travel(to=NOON):
        add()
        runs = run_until(DAY)

    assert [(run.attempt, run.outcome) for run in runs] == [(1, RETRIED), (2, RETRIED), (3, FAILED)]
    assert after(runs) == [timedelta(), MINUTE, 3 * MINUTE]


def test_a_task_recurs_each_time() -> None:
    handler_of(lambda task: None)
    with travel(to=NOON):
        add(trigger=Interval(hours=6))
        runs = run_until(DAY)
    assert after(runs) == [6 * HOUR, 12 * HOUR, 18 * HOUR, 24 * HOUR]


def test_missed_times_are_made_up_for_as_the_trigger_says() -> None:
    handler_of(lambda task: None)
    with travel(to=NOON) as journey:
        add("latest", trigger=Interval(hours=6))
        add("skip", trigger=Interval(hours=6, misfire="skip"))
        add("all", trigger=Interval(hours=6, misfire="catch_up"))
        journey.move(by=DAY + MINUTE)
        runs = run_due_tasks()

    assert [run.when - NOON for run in runs.of("code", "latest")] == [DAY]
    assert [run.when - NOON for run in runs.of("code", "all")] == [6 * HOUR, 12 * HOUR, 18 * HOUR, DAY]


def test_handlers_with_a_trigger_recur_once_they_are_declared() -> None:
    class Nightly(TaskHandler):
        biz_code = "nightly"
        trigger = Cron("0 3 * * *", tz="UTC")

        def handle(self, task: Any) -> None: ...

    register_task_handler(Nightly)
    with travel(to=NOON):
        assert run_until(DAY) == []
        declare_recurring(Nightly)
        runs = run_until(3 * DAY)
    assert after(runs, NOON + DAY) == [15 * HOUR, 39 * HOUR, 63 * HOUR]


def test_a_code_without_a_trigger_cannot_be_declared() -> None:
    handler_of(lambda task: None)
    with pytest.raises(ValueError, match=r"no handler with a trigger for code \(known: none\)"):
        declare_recurring("code")


def test_a_handler_names_its_next_time() -> None:
    def handle(task: Any) -> Reschedule | Done:
        pages = task.biz_ext or 0
        return Done(result=pages) if pages == 3 else Reschedule(HOUR, biz_ext=pages + 1)

    handler_of(handle)
    with travel(to=NOON):
        add()
        runs = run_until(DAY)
    assert after(runs) == [timedelta(), HOUR, 2 * HOUR, 3 * HOUR]
    assert runs[-1].result == 3


def test_a_task_expires_at_its_time() -> None:
    handler_of(lambda task: None)
    with travel(to=NOON) as journey:
        add("in time", when=HOUR, expires_at=NOON + HOUR)
        add("late", when=HOUR, expires_at=NOON + HOUR)
        pause_queue("default")
        assert run_until(HOUR - MINUTE) == []
        journey.move(by=HOUR)
        Task._base_manager.filter(biz_num="in time").update(expires_at=None)
        resume_queue("default")
        runs = run_due_tasks()
    assert sorted(runs.outcomes) == [("code", "in time", DONE), ("code", "late", RunOutcome.EXPIRED)]


def test_a_run_that_comes_too_late_is_skipped() -> None:
    handler_of(lambda task: None, max_lateness=HOUR)
    with travel(to=NOON) as journey:
        add(when=HOUR)
        journey.move(by=3 * HOUR)
        [run] = run_due_tasks()
    assert run.outcome == RunOutcome.EXPIRED
    assert "late" in run.reason


def test_what_a_run_schedules_is_met_on_the_way() -> None:
    def handle(task: Any) -> None:
        if task.biz_num == "first":
            add_task(Task(biz_code="code", biz_num="second", when=HOUR))

    handler_of(handle)
    with travel(to=NOON):
        add("first", when=HOUR)
        runs = run_until(DAY)
    assert [(run.biz_num, run.when - NOON) for run in runs] == [("first", HOUR), ("second", 2 * HOUR)]


def test_async_handlers_find_the_clock_set() -> None:
    seen: list[datetime] = []

    async def handle(task: Any) -> None:
        seen.append(timezone.now())

    async_handler_of(handle)
    with travel(to=NOON):
        add(when=DAY)
        run_until(2 * DAY)
    assert seen == [NOON + DAY]


def test_a_handler_may_check_its_claim_days_later() -> None:
    handler_of(lambda task: task.check_claim())
    with travel(to=NOON):
        add(when=DAY)
        [run] = run_until(30 * DAY)
    assert run.outcome == DONE


def test_a_task_without_a_handler_does_not_hold_it_up() -> None:
    handler_of(lambda task: None)
    old = handler_of(lambda task: None, "old")
    with travel(to=NOON):
        add(code="old", when=HOUR)
        add(when=2 * DAY)
        withdraw(old)
        assert run_until(30 * DAY).codes == ["code"]
        assert Task.objects.get().status == TaskStatus.PENDING


def test_the_past_is_refused() -> None:
    with travel(to=NOON), pytest.raises(ValueError, match="is past: it is 2026-03-01 12:00"):
        run_until(NOON - MINUTE)


@pytest.mark.parametrize("moment", ["tomorrow", NOON.replace(tzinfo=None)])
def test_other_moments_are_refused(moment: Any) -> None:
    with pytest.raises(TypeError, match="aware datetime"):
        run_until(moment)


def test_an_endless_task_is_reported() -> None:
    handler_of(lambda task: MINUTE)
    add()
    with pytest.raises(TaskException, match="no end of due tasks after 30 runs"):
        run_until(DAY, max_runs=30)


def test_a_rate_is_kept_exactly() -> None:
    handler_of(lambda task: None, rate="2/h")
    with travel(to=NOON):
        for number in "12345":
            add(number)
        runs = run_until(DAY)
    assert after(runs) == [timedelta(), timedelta(), HOUR, HOUR, 2 * HOUR]


def test_a_rate_of_each_key_is_kept_exactly() -> None:
    handler_of(lambda task: None, rate="1/m", concurrency_key=lambda self, task: task.biz_num[0])
    with travel(to=NOON):
        for number in ("a1", "a2", "a3", "b1", "b2"):
            add(number)
        runs = run_until(DAY)
    starts = {run.biz_num: run.started - NOON for run in runs if run.started}
    assert starts == {"a1": 0 * MINUTE, "b1": 0 * MINUTE, "a2": MINUTE, "b2": MINUTE, "a3": 2 * MINUTE}


def test_tasks_of_one_key_run_one_after_the_other() -> None:
    handler_of(lambda task: None, max_concurrent=1, concurrency_key=lambda self, task: task.biz_num[0])
    with travel(to=NOON):
        for number in ("a1", "a2", "a3", "b1", "b2"):
            add(number)
        assert len(run_due_tasks()) == 5
