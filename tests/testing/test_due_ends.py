"""How the runs of ``run_due_tasks`` end, and what is known of each."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_delayed_tasks import (
    Done,
    Fail,
    Reschedule,
    Retry,
    Task,
    TaskHandler,
    TaskRun,
    add_task,
    cancel_task,
    register_task_handler,
)
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.testing import run_due_tasks
from tests.executor.parts import add, handler_of
from tests.testing.parts import DONE, FAILED, HOUR, RETRIED

pytestmark = pytest.mark.django_db


def test_a_run_says_what_it_left() -> None:
    handler_of(lambda task: Done(result={"sum": 3}), "sums")
    handler_of(lambda task: Reschedule(HOUR, biz_ext={"page": 2}), "pages")
    handler_of(lambda task: Retry(after=HOUR, reason="too busy"), "busy")
    handler_of(lambda task: Fail("no such order"), "orders")
    with frozen_at(timezone.now()):
        for code in ("sums", "pages", "busy", "orders"):
            add(code=code)
        runs = run_due_tasks()
        now = timezone.now()

    [summed], [paged], [busy], [failed] = (runs.of(code) for code in ("sums", "pages", "busy", "orders"))
    assert (summed.result, summed.status, summed.next_at) == ({"sum": 3}, None, None)
    assert (paged.outcome, paged.status) == (RunOutcome.RESCHEDULED, TaskStatus.PENDING)
    assert paged.next_at is not None
    assert abs(paged.next_at - now - HOUR) < timedelta(minutes=1)
    assert (busy.outcome, busy.reason, busy.status) == (RETRIED, "too busy", TaskStatus.PENDING)
    assert (failed.outcome, failed.reason, failed.status) == (FAILED, "no such order", TaskStatus.FAILED)
    assert "  orders 1 failed (no such order) [" in repr(runs)
    assert ", again at " in str(busy)


def test_an_error_is_found_on_the_run() -> None:
    def handle(task: Any) -> None:
        raise ValueError("no such order")

    handler_of(handle, max_attempts=1)
    add()
    [run] = runs = run_due_tasks()

    assert run.outcome == FAILED
    assert isinstance(run.exception, ValueError)
    assert "in handle" in run.error
    with pytest.raises(ValueError, match="no such order"):
        runs.raise_errors()


def test_a_reason_without_an_exception_is_raised_too() -> None:
    handler_of(lambda task: Fail("no such order"))
    add()
    with pytest.raises(AssertionError, match="code 1 failed"):
        run_due_tasks().raise_errors()


def test_good_runs_raise_nothing() -> None:
    handler_of(lambda task: None)
    add()
    runs = run_due_tasks()
    assert runs.raise_errors() is runs


def test_final_failures_are_reported() -> None:
    told: list[Any] = []

    class Failing(TaskHandler):
        biz_code = "code"
        max_attempts = 1

        def handle(self, task: Any) -> None:
            raise ValueError("no")

        def on_failed(self, task: Any, error: str, exception: BaseException | None = None) -> None:
            told.append((task.biz_num, exception))

    register_task_handler(Failing)
    add()
    [run] = run_due_tasks()
    assert told == [("1", run.exception)]


def test_a_retry_that_is_due_at_once_runs_too() -> None:
    def handle(task: Any) -> Retry | None:
        return Retry(after=timedelta()) if task.attempts < 3 else None

    handler_of(handle)
    add()
    runs = run_due_tasks()
    assert [(run.attempt, run.outcome) for run in runs] == [(1, RETRIED), (2, RETRIED), (3, DONE)]


def test_an_expired_task_does_not_run() -> None:
    ran: list[str] = []
    handler_of(lambda task: ran.append(task.biz_num))
    add(expires_at=timezone.now() - HOUR)
    [run] = run_due_tasks()
    assert (run.outcome, run.started, ran) == (RunOutcome.EXPIRED, None, [])


def test_a_schedule_that_came_during_the_run_is_kept() -> None:
    def handle(task: Any) -> None:
        if task.biz_ext != "again":
            add_task(Task(biz_code="code", biz_num="1", when=HOUR, biz_ext="again"))

    handler_of(handle)
    add()
    [run] = run_due_tasks()
    assert (run.outcome, run.status) == (DONE, TaskStatus.PENDING)
    assert Task.objects.get().biz_ext == "again"


def test_a_run_that_was_cancelled_meanwhile_is_not_tried_again() -> None:
    def handle(task: Any) -> None:
        cancel_task("code", "1")
        assert task.cancel_requested
        raise ValueError("stopped")

    handler_of(handle)
    add()
    [run] = run_due_tasks()
    assert (run.outcome, run.status) == (RunOutcome.CANCELLED, None)


def test_the_outcome_is_known_without_a_history() -> None:
    handler_of(lambda task: None, keep_history="none")
    handler_of(lambda task: None, "atomic", keep_history="none", atomic=True)
    add()
    add(code="atomic")
    assert sorted(run_due_tasks().outcomes) == [("atomic", "1", DONE), ("code", "1", DONE)]
    assert not TaskRun.objects.exists()
