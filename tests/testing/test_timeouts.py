"""``run_due_tasks`` with handlers whose ``timeout`` is over: what an executor does, as far as one thread can."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import Retry, Task, TaskHandler, register_task_handler
from django_delayed_tasks.exceptions import ClaimLost, TaskTimeout
from django_delayed_tasks.models import PausedQueue
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import is_lost
from django_delayed_tasks.testing import run_due_tasks, run_until
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, handler_of
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

SHORT, NEVER_OVER = 0.01, 60.0
"""Seconds."""


def until_it_is_taken(task: Any) -> None:
    wait_until(lambda: is_lost(task))


def test_a_coroutine_is_cancelled() -> None:
    async def handle(task: Any) -> None:
        await asyncio.Event().wait()

    async_handler_of(handle, timeout=SHORT)
    add()
    [run] = runs = run_due_tasks()
    assert (run.outcome, run.status) == (RunOutcome.RETRIED, TaskStatus.PENDING)
    assert "the run took longer than 0.01 s" in run.error
    with pytest.raises(TaskTimeout):
        runs.raise_errors()


def test_a_coroutine_that_continues_does_not_count() -> None:
    async def handle(task: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    async_handler_of(handle, timeout=SHORT, max_attempts=1)
    add()
    [run] = run_due_tasks()
    assert (run.outcome, run.status) == (RunOutcome.FAILED, TaskStatus.FAILED)


def test_the_late_end_of_a_plain_handler_does_not_count() -> None:
    lost: list[bool] = []

    def handle(task: Any) -> None:
        until_it_is_taken(task)
        try:
            task.check_claim()
        except ClaimLost:
            lost.append(True)

    handler_of(handle, timeout=SHORT)
    add()
    [run] = run_due_tasks()
    assert (run.outcome, run.status, lost) == (RunOutcome.RETRIED, TaskStatus.PENDING, [True])
    assert isinstance(run.exception, TaskTimeout)


def test_the_next_attempt_may_be_in_time() -> None:
    def handle(task: Any) -> None:
        if task.attempts == 1:
            until_it_is_taken(task)
            handler.timeout = NEVER_OVER

    handler = handler_of(handle, timeout=SHORT)
    add()
    runs = run_until(timedelta(hours=1))
    assert [run.outcome for run in runs] == [RunOutcome.RETRIED, RunOutcome.DONE]


def test_what_a_late_atomic_run_has_written_is_rolled_back() -> None:
    def handle(task: Any) -> None:
        PausedQueue.objects.create(queue="effect", paused_at=task.when)
        until_it_is_taken(task)

    handler_of(handle, timeout=SHORT, atomic=True, max_attempts=1)
    add()
    [run] = run_due_tasks()
    assert (run.outcome, run.status) == (RunOutcome.FAILED, TaskStatus.FAILED)
    assert not PausedQueue.objects.exists()


def test_all_tasks_of_a_late_batch_are_taken() -> None:
    class Batched(TaskHandler):
        biz_code = "code"
        timeout = SHORT

        def handle_batch(self, tasks: list[Any]) -> None:
            until_it_is_taken(tasks[-1])

    register_task_handler(Batched)
    for number in "123":
        add(number)
    assert [run.outcome for run in run_due_tasks()] == [RunOutcome.RETRIED] * 3


@pytest.mark.parametrize("kind", [handler_of, async_handler_of])
def test_a_run_in_time_ends_as_without_a_limit(kind: Any) -> None:
    async def ahandle(task: Any) -> Any:
        return handle(task)

    def handle(task: Any) -> Any:
        return Retry(after=timedelta()) if task.attempts == 1 else None

    kind(ahandle if kind is async_handler_of else handle, timeout=NEVER_OVER)
    add()
    assert [run.outcome for run in run_due_tasks()] == [RunOutcome.RETRIED, RunOutcome.DONE]
    assert not Task.objects.exists()
