"""The event loop of an executor when a handler blocks it."""

import sys
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from django_delayed_tasks.executor.running import awaited_runs
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, executing
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("live_db")


@pytest.fixture
def go_on() -> Any:
    event = Event()
    yield event
    event.set()


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [one.getMessage() for one in caplog.records if "blocks the event loop" in one.getMessage()]


def test_a_handler_that_blocks_it_is_named(go_on: Event, warnings: Callable[[], list[str]]) -> None:
    async def block(task: Any) -> None:
        assert go_on.wait(60)

    async_handler_of(block, code="blocking")
    add(code="blocking")
    with executing() as executor:
        wait_until(warnings)
        executor.watchdog.tick()
        go_on.set()
        wait_until(lambda: not Task.objects.exists())
    [warning] = warnings()
    assert warning.startswith("blocking 1 blocks the event loop, for ")
    assert "call what blocks with sync_to_async" in warning
    assert "assert go_on.wait(60)" in warning


def test_so_is_one_that_is_blocked_by_a_task_of_its_own(go_on: Event, warnings: Callable[[], list[str]]) -> None:
    import asyncio

    async def block() -> None:
        assert go_on.wait(60)

    async def handle(task: Any) -> None:
        await asyncio.gather(block())

    async_handler_of(handle, code="blocking")
    add(code="blocking")
    with executing():
        wait_until(warnings)
        go_on.set()
        wait_until(lambda: not Task.objects.exists())
    name = "blocking 1" if sys.version_info >= (3, 12) else "Task-"  # Python 3.11 does not tell whose task it is
    assert warnings()[0].startswith(name)
    assert "blocks the event loop" in warnings()[0]


def test_it_is_named_again_later(
    go_on: Event, warnings: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited_runs, "COMPLAIN_EVERY", 0.0)

    async def block(task: Any) -> None:
        assert go_on.wait(60)

    async_handler_of(block)
    add()
    with executing():
        wait_until(lambda: len(warnings()) >= 2)
        go_on.set()


def test_a_process_whose_loop_stays_blocked_is_to_be_restarted(go_on: Event) -> None:
    async def block(task: Any) -> None:
        assert go_on.wait(60)

    async_handler_of(block)
    add()
    with executing() as executor:
        executor.health._threads = ()  # on a busy machine they may wait for the database as long
        executor.health._longest_call = 0.5
        assert executor.worn_out.wait(60)
        assert executor.health.trouble() == "a handler blocks the event loop"
        go_on.set()


def test_what_is_timed_out_meanwhile_is_settled(go_on: Event) -> None:
    """It cannot be cancelled as long as the loop is blocked."""

    async def block(task: Any) -> None:
        assert go_on.wait(60)

    async_handler_of(block, timeout=0.1, max_attempts=1)
    add()
    with executing():
        wait_until(lambda: Task.objects.get().status == 2)
        go_on.set()


def test_a_blocked_loop_does_not_keep_the_executor_from_stopping(go_on: Event) -> None:
    begun = Event()

    async def block(task: Any) -> None:
        begun.set()
        assert go_on.wait(60)

    async_handler_of(block)
    add()
    with executing() as executor:
        assert begun.wait(60)
        assert not executor.stop(0.0)
        go_on.set()
        wait_until(lambda: not executor.awaited.loop.is_running)
    task = Task.objects.get()
    assert (task.status, task.version, task.rescues) == (TaskStatus.PENDING, 2, 0)
