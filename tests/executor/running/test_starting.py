"""Whether a claimed task may still start, and which of its times the run stands for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_delayed_tasks import Interval
from django_delayed_tasks.executor.running.run import refusal
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.runs import run
from tests.recurring.machine import HandClock

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
EVERY_TEN = str(Interval(minutes=10, start=NOON))


def handler(**attributes: Any) -> TaskHandler:
    members = {"biz_code": "code", "handle": lambda self, task: None, **attributes}
    made: TaskHandler = type("Handler", (TaskHandler,), members)()
    return made


def claimed(when: datetime = NOON, trigger: str | None = None, attempts: int = 1, **fields: Any) -> ClaimedTask:
    fields = {"_trigger_text": trigger, "_claim_at": when, **fields}
    return ClaimedTask(7, 4, "code", "1", when, None, "default", 0, attempts, 0, "default", **fields)


def at(now: datetime) -> HandClock:
    hand = HandClock()
    hand.moment = now
    return hand


def refused(task: ClaimedTask, now: datetime, **attributes: Any) -> Settlement:
    """Return how it is settled without a run; a query that changes nothing has the same answer."""
    looked = refusal(task, handler(**attributes), now)
    [settlement] = run([task], handler(**attributes), at(now)).left
    assert looked
    assert settlement == looked._replace(after=settlement.after)  # which is by chance
    return settlement


def starts(task: ClaimedTask, now: datetime, **attributes: Any) -> bool:
    """Whether the handler is called, as the look that changes nothing says."""
    calls: list[Any] = []
    when = task.when
    looked = refusal(task, handler(**attributes), now)
    assert task.when == when
    run([task], handler(handle=lambda self, task: calls.append(task), **attributes), at(now))
    assert (looked is None) == bool(calls)
    return bool(calls)


def test_a_task_in_time_starts() -> None:
    assert starts(claimed(), NOON, max_lateness=60)


@pytest.mark.parametrize("trigger", [None, EVERY_TEN])
def test_as_late_as_is_allowed_it_starts_and_a_moment_later_it_does_not(trigger: str | None) -> None:
    assert starts(claimed(trigger=trigger), NOON + MINUTE, max_lateness=60)
    late = refused(claimed(trigger=trigger), NOON + MINUTE + SECOND, max_lateness=60)
    assert late.outcome is RunOutcome.EXPIRED
    assert late.then is (NextState.RECUR if trigger else NextState.GONE)


def test_at_the_moment_when_it_expires_it_starts_and_later_it_does_not() -> None:
    assert starts(claimed(expires_at=NOON + MINUTE), NOON + MINUTE)
    late = refused(claimed(expires_at=NOON + MINUTE), NOON + MINUTE + SECOND)
    assert late.outcome is RunOutcome.EXPIRED
    assert "it expired at 2026-05-01 12:01:00 UTC" in late.error


def test_a_retry_belongs_to_a_run_that_was_in_time() -> None:
    assert starts(claimed(attempts=2), NOON + 60 * MINUTE, max_lateness=60)
    assert refused(claimed(attempts=2, expires_at=NOON), NOON + SECOND).outcome is RunOutcome.EXPIRED


def test_jitter_is_not_lateness() -> None:
    trigger = str(Interval(minutes=10, jitter=120, start=NOON))
    assert starts(claimed(trigger=trigger), NOON + 3 * MINUTE, max_lateness=60)
    refused(claimed(trigger=trigger), NOON + 3 * MINUTE + SECOND, max_lateness=60)


def test_a_clock_that_is_behind_lets_nothing_expired_start() -> None:
    """The database has given the task out, so its time has come, and with it the one at which it expires."""
    behind = NOON - MINUTE
    assert refused(claimed(expires_at=NOON - SECOND), behind).outcome is RunOutcome.EXPIRED
    task = claimed(trigger=EVERY_TEN)
    assert starts(task, behind)
    assert task.when == NOON


def test_after_an_outage_it_stands_for_the_latest_of_its_times() -> None:
    task = claimed(trigger=EVERY_TEN)
    assert starts(task, NOON + 61 * MINUTE, max_lateness=120)
    assert task.when == NOON + 60 * MINUTE


def test_so_it_does_when_it_is_too_late_for_that_one_too() -> None:
    late = refused(claimed(trigger=EVERY_TEN), NOON + 65 * MINUTE, max_lateness=60)
    assert late.stood_for == NOON + 60 * MINUTE
    assert late.when == NOON + 70 * MINUTE
    assert "0:05:00 late, 0:01:00 at most" in late.error


def test_one_that_does_not_recur_is_shown_at_its_own_time() -> None:
    assert refused(claimed(), NOON + 65 * MINUTE, max_lateness=60).stood_for == NOON


def test_a_run_between_two_times_takes_none_of_them_away() -> None:
    """It was told to run now: its planned time comes all the same."""
    task = claimed(NOON + 10 * MINUTE, EVERY_TEN, _claim_at=NOON + 5 * MINUTE, _is_early=True)
    assert starts(task, NOON + 5 * MINUTE, max_lateness=60)
    assert task.when == NOON + 5 * MINUTE


def test_a_trigger_that_cannot_be_read_fails_the_task() -> None:
    broken = refused(claimed(trigger="nonsense"), NOON)
    assert (broken.outcome, broken.then) == (RunOutcome.FAILED, NextState.FAILED)
    assert "nonsense" in broken.error
