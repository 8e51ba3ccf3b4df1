"""Runs of async handlers, in whole executors."""

import asyncio
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import timedelta
from threading import current_thread
from threading import enumerate as enumerate_threads
from typing import Any

import pytest
from django.utils import translation

from django_delayed_tasks import Done, Interval, Retry, TaskHandler, TaskRun, add_tasks, register_task_handler
from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.signals import run_finished, run_started
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.executor.coroutines import Waiting, async_handler_of
from tests.executor.parts import add, drain, executing, handler_of
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("live_db")
ERRORS = [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), StopIteration(), GeneratorExit()]

number_of_run: ContextVar[str] = ContextVar("number_of_run", default="none")


def outcomes() -> list[tuple[int, int]]:
    return list(TaskRun.objects.order_by("id").values_list("attempt", "outcome"))


def test_a_thousand_wait_at_the_same_time_in_one_process() -> None:
    """None of them returns before all have begun."""
    count = 1000
    begun, all_have_begun = [], asyncio.Event()

    async def handle(task: Any) -> None:
        begun.append(current_thread().name)
        if len(begun) == count:
            all_have_begun.set()
        await asyncio.wait_for(all_have_begun.wait(), 60)

    async_handler_of(handle, max_attempts=1)
    add_tasks(Task(biz_code="code", biz_num=str(number)) for number in range(count))
    drain(threads=1, async_concurrency=count)
    assert set(begun) == {"event loop"}
    assert TaskRun.objects.filter(outcome=RunOutcome.DONE).count() == len(begun) == count


def test_no_more_than_allowed_wait_at_the_same_time() -> None:
    current, most = 0, 0

    async def handle(task: Any) -> None:
        nonlocal current, most
        current += 1
        most = max(most, current)
        await asyncio.sleep(0.001)
        current -= 1

    async_handler_of(handle)
    add_tasks(Task(biz_code="code", biz_num=str(number)) for number in range(100))
    drain(async_concurrency=7)
    assert most == 7


def test_without_async_handlers_there_is_no_loop() -> None:
    handler_of(lambda task: None)
    add()
    with executing() as executor:
        wait_until(lambda: not Task.objects.exists())
        assert not executor.awaited.loop.is_running
        assert "event loop" not in {thread.name for thread in enumerate_threads()}


def test_the_loop_ends_with_its_executor() -> None:
    async def handle(task: Any) -> None:
        await Task.objects.acount()
        await asyncio.to_thread(len, "")

    async_handler_of(handle)
    add()
    drain()
    names = {thread.name.rpartition("-")[0] or thread.name for thread in enumerate_threads()}
    assert names.isdisjoint({"event loop", "coroutines' queries", "coroutines' threads"})


class TestContext:
    def test_is_of_each_run_alone(self) -> None:
        found: list[tuple[str, str, str]] = []

        async def handle(task: Any) -> None:
            before = number_of_run.get()
            number_of_run.set(task.biz_num)
            translation.activate("de" if task.biz_num == "1" else "fr")
            await asyncio.sleep(0.02)
            found.append((before, number_of_run.get(), translation.get_language() or ""))

        async_handler_of(handle)
        for number in range(1, 4):
            add(str(number))
        drain()
        assert sorted(found) == [("none", "1", "de"), ("none", "2", "fr"), ("none", "3", "fr")]

    def test_comes_along_to_the_thread_of_a_query(self) -> None:
        found = []

        async def handle(task: Any) -> None:
            number_of_run.set(task.biz_num)
            found.append(await asyncio.to_thread(number_of_run.get))

        async_handler_of(handle)
        add("7")
        drain()
        assert found == ["7"]


class TestEnds:
    def test_what_it_returns_is_what_a_plain_handler_may_return(self) -> None:
        async def handle(task: Any) -> Any:
            return Done(result={"answer": 42})

        async_handler_of(handle)
        add()
        drain()
        assert TaskRun.objects.get().result == {"answer": 42}

    def test_a_retry_and_an_exception_are_followed_by_another_attempt(self) -> None:
        async def handle(task: Any) -> Any:
            if task.attempts == 1:
                raise ValueError("not yet")
            return Retry(after=timedelta()) if task.attempts == 2 else None

        async_handler_of(handle, backoff=lambda self, attempt: timedelta())
        add()
        drain()
        assert outcomes() == [(1, RunOutcome.RETRIED), (2, RunOutcome.RETRIED), (3, RunOutcome.DONE)]
        first = TaskRun.objects.order_by("id")[0].error
        assert first.endswith("ValueError: not yet\n")
        assert 'raise ValueError("not yet")' in first

    @pytest.mark.parametrize("error", ERRORS, ids=repr)
    def test_no_exception_ends_the_loop(self, error: BaseException) -> None:
        async def handle(task: Any) -> None:
            if task.biz_num == "bad":
                raise error

        async_handler_of(handle, max_attempts=1)
        for num in ("bad", "good"):
            add(num)
        drain()
        found = dict(TaskRun.objects.values_list("biz_num", "outcome"))
        assert found == {"bad": RunOutcome.FAILED, "good": RunOutcome.DONE}
        name = "RuntimeError" if isinstance(error, StopIteration) else type(error).__name__
        assert name in TaskRun.objects.get(biz_num="bad").error

    def test_nor_does_one_in_a_task_that_a_handler_has_left(self, caplog: pytest.LogCaptureFixture) -> None:
        async def leave() -> None:
            raise SystemExit(3)

        async def handle(task: Any) -> None:
            if task.biz_num == "1":
                left = asyncio.create_task(leave())
                await asyncio.wait([left])

        async_handler_of(handle, max_attempts=1)
        with executing():
            for num in ("1", "2"):
                add(num)
                wait_until(lambda: not Task.objects.exists())
        assert [outcome for _, outcome in outcomes()] == [RunOutcome.DONE] * 2
        assert "the event loop continues" in caplog.text

    def test_a_handler_cannot_stop_the_loop(self) -> None:
        async def handle(task: Any) -> None:
            asyncio.get_running_loop().stop()

        async_handler_of(handle, max_attempts=1)
        for num in ("1", "2"):
            add(num)
        drain()
        assert [outcome for _, outcome in outcomes()] == [RunOutcome.DONE] * 2

    def test_a_recurring_one_recurs(self) -> None:
        async def handle(task: Any) -> None:
            await asyncio.sleep(0)

        async_handler_of(handle)
        add(trigger=Interval(hours=1), when=timedelta())
        drain()
        assert Task.objects.get().status == TaskStatus.PENDING
        assert TaskRun.objects.get().outcome == RunOutcome.DONE


class TestBatch:
    def of(self, handle_batch: Any, **attributes: Any) -> None:
        async def call(self: Any, tasks: Any) -> Any:
            return await handle_batch(tasks)

        members = {"biz_code": "code", "handle_batch": call, **attributes}
        register_task_handler(type("Batched", (TaskHandler,), members))

    def test_is_awaited_in_one_call(self) -> None:
        sizes = []

        async def handle_batch(tasks: Any) -> Any:
            sizes.append(len(tasks))
            await asyncio.sleep(0)
            return [Done(result=task.biz_num) for task in tasks]

        self.of(handle_batch)
        add_tasks(Task(biz_code="code", biz_num=str(number)) for number in range(30))
        drain(async_concurrency=1)
        assert sizes == [30]
        assert {run.result for run in TaskRun.objects.all()} == {str(number) for number in range(30)}

    def test_that_raises_is_run_one_by_one(self) -> None:
        current, most = 0, 0

        async def handle_batch(tasks: Any) -> Any:
            nonlocal current, most
            current += 1
            most = max(most, current)
            await asyncio.sleep(0.001)
            current -= 1
            if any(task.biz_num == "3" for task in tasks):
                raise ValueError("three")

        self.of(handle_batch, max_attempts=1)
        add_tasks(Task(biz_code="code", biz_num=str(number)) for number in range(6))
        drain(async_concurrency=2)
        found = dict(TaskRun.objects.values_list("biz_num", "outcome"))
        assert found == {str(number): RunOutcome.DONE for number in range(6)} | {"3": RunOutcome.FAILED}
        assert most == 2


class TestSignals:
    @pytest.fixture
    def seen(self) -> Iterator[list[tuple[str, str, int]]]:
        seen: list[tuple[str, str, int]] = []

        def started(sender: Any, task: Any, **_: Any) -> None:
            number_of_run.set(task.biz_num)
            seen.append(("started", number_of_run.get(), Executor.objects.count()))

        def finished(sender: Any, task: Any, **_: Any) -> None:
            seen.append(("finished", number_of_run.get(), Executor.objects.count()))

        run_started.connect(started)
        run_finished.connect(finished)
        yield seen
        run_started.disconnect(started)
        run_finished.disconnect(finished)

    def test_their_receivers_may_query_and_share_the_context_of_the_run(self, seen: Any) -> None:
        async def handle(task: Any) -> None:
            seen.append(("handled", number_of_run.get(), 1))

        async_handler_of(handle)
        add("7")
        drain()
        assert seen == [("started", "7", 1), ("handled", "7", 1), ("finished", "7", 1)]


def test_a_limit_holds_for_them_too() -> None:
    waiting = Waiting(max_concurrent=3)
    add_tasks(Task(biz_code="code", biz_num=str(number)) for number in range(10))
    with executing(threads=1) as executor:
        wait_until(lambda: len(waiting.begun) == 3)
        assert len(waiting.begun) == executor.capacity.awaited == 3
        waiting.go_on()
        wait_until(lambda: not Task.objects.exists())
    assert len(waiting.begun) == 10
