"""What cancels the handler of an async run, and must not cancel or repeat the rest of it."""

import asyncio
from typing import Any

import pytest
from django.db.models import F

from django_delayed_tasks import TaskHandler, register_task_handler, signals
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import lose
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, executing
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("live_db")


class TestTheHandlersOwnCancel:
    """A handler that cancels the asyncio task that it runs in cancels nothing but its own call."""

    def test_that_takes_effect_when_it_has_returned(self) -> None:
        async def handle(task: Any) -> None:
            current = asyncio.current_task()
            assert current
            current.cancel()

        with_receiver: list[Any] = []
        signals.run_finished.connect(receiver := lambda **given: with_receiver.append(given["task"]), weak=False)
        try:
            self.run_one(handle, RunOutcome.DONE)
        finally:
            signals.run_finished.disconnect(receiver)
        assert len(with_receiver) == 1

    def test_that_comes_later(self) -> None:
        """Such as from a timer that it has forgotten to stop."""
        ended = []

        async def handle(task: Any) -> None:
            current = asyncio.current_task()
            assert current
            asyncio.get_running_loop().call_soon(lambda: ended.append(current.cancel()))

        self.run_one(handle, RunOutcome.DONE)
        assert len(ended) == 1

    def test_that_it_waits_for_has_failed_the_attempt(self) -> None:
        async def handle(task: Any) -> None:
            current = asyncio.current_task()
            assert current
            current.cancel()
            await asyncio.sleep(60)

        self.run_one(handle, RunOutcome.FAILED)
        assert "CancelledError" in TaskRun.objects.get().error

    def run_one(self, handle: Any, outcome: RunOutcome) -> None:
        async_handler_of(handle, max_attempts=1)
        add()
        with executing(threads=1):
            wait_until(lambda: TaskRun.objects.exists())
        [run] = TaskRun.objects.all()
        assert run.outcome == outcome


def test_a_batch_of_which_one_claim_is_lost_is_run_once() -> None:
    batches: list[list[str]] = []
    go_on = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def handle_batch(self: Any, tasks: Any) -> None:
        batches.append(sorted(task.biz_num for task in tasks))
        loops.append(asyncio.get_running_loop())
        await go_on.wait()

    register_task_handler(type("Batched", (TaskHandler,), {"biz_code": "code", "handle_batch": handle_batch}))
    for number in range(3):
        add(str(number))
    with executing(threads=1) as executor:
        wait_until(lambda: batches)
        Task._base_manager.filter(biz_num="1").update(version=F("version") + 1)
        lose(next(task for task in executor.held.tasks() if task.biz_num == "1"))
        executor.awaited.watch()
        loops[0].call_soon_threadsafe(go_on.set)
        wait_until(lambda: TaskRun.objects.count() == 2)
        executor.stop()
    assert batches == [["0", "1", "2"]]
