"""``async with`` a mutex or a resource of a pool, cancelled at each moment: nothing stays held."""

import asyncio
from contextlib import suppress
from threading import Event
from typing import Any

import pytest

from django_delayed_tasks.leases import mutex
from django_delayed_tasks.store.resources import resources
from tests.leases.coroutines import (
    Held,
    Make,
    Standing,
    is_free,
    query,
    run,
    threads_of_leases,
    until,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("live_db")


@pytest.mark.parametrize("wait", [60, None])
def test_cancelled_while_it_waits(make: Make, wait: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place in the wait queue is given up, though the resource never becomes free."""
    standing = Standing(monkeypatch)

    async def main() -> None:
        async with make():
            task = asyncio.create_task(make(wait=wait).__aenter__())
            await until(standing.has_come)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(wait_until, lambda: not threads_of_leases())

    run(main)
    assert is_free()


def test_cancelled_when_the_thread_has_just_got_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def main() -> None:
        task = asyncio.create_task(make(wait=0).__aenter__())
        await until(held.is_acquired)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not await query(is_free)
        held.go_on.set()

    run(main)
    assert is_free()


def test_cancelled_when_the_thread_has_told_the_loop(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop is busy: the result and the cancellation come in the same turn."""
    held = Held(monkeypatch)

    async def main() -> None:
        task = asyncio.create_task(make(wait=0).__aenter__())
        await until(held.is_acquired)
        held.go_on.set()
        wait_until(lambda: not threads_of_leases())  # blocks the loop
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)
    assert is_free()


def test_cancelled_when_the_result_is_there(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The future is done, and the task that awaits it has not been resumed yet."""

    def cancel_when_done(future: Any) -> Any:
        monkeypatch.undo()
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task
        wrapped = loop.create_future()
        wrapped.add_done_callback(lambda _: task.cancel())  # called before the callback that resumes the task
        # In a later turn of the loop, even if the thread is done already.
        future.add_done_callback(lambda done: loop.call_soon_threadsafe(wrapped.set_result, done.result()))
        return wrapped

    monkeypatch.setattr(asyncio, "wrap_future", cancel_when_done)

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await make(wait=0).__aenter__()
        task = asyncio.current_task()
        assert task
        task.uncancel()

    run(main)
    assert is_free()


def test_a_cancelled_acquisition_keeps_nothing_for_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def main() -> None:
        task = asyncio.create_task(mutex("index", at_least=3600).__aenter__())
        await until(held.is_acquired)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        held.go_on.set()

    run(main)
    monkeypatch.undo()
    with mutex("index"):
        pass


def test_a_mutex_can_be_tried_again_after_a_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of the first try may still be there."""
    standing = Standing(monkeypatch)

    async def main() -> None:
        guard = mutex("index", wait=None)
        async with mutex("index"):
            task = asyncio.create_task(guard.__aenter__())
            await until(standing.has_come)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            again = asyncio.create_task(guard.__aenter__())
            await asyncio.sleep(0)
        lease = await again
        assert lease.is_held
        await guard.__aexit__(None, None, None)

    run(main)
    assert is_free()


def test_cancelled_while_it_is_given_back(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    is_releasing, go_on = Event(), Event()
    release = resources.release

    def stop(*arguments: Any) -> bool:
        is_releasing.set()
        assert go_on.wait(60)
        return release(*arguments)

    monkeypatch.setattr(resources, "release", stop)

    async def main() -> None:
        async def work() -> None:
            async with make():
                pass

        task = asyncio.create_task(work())
        await until(is_releasing)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()

    run(main)
    assert is_free()
