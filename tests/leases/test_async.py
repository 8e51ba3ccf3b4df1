"""``async with`` a mutex or a resource of a pool: no query in the event loop, and nothing held after a cancellation."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import ContextVar
from threading import Event, current_thread, get_ident
from threading import enumerate as enumerate_threads
from typing import Any, TypeVar

import pytest
from django.db import connections

from django_delayed_tasks.leases import LeaseLost, Pool, ResourceUnavailable, asynchronous, mutex
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import Resource, Waiter
from django_delayed_tasks.store.resources import line as waiting
from django_delayed_tasks.store.resources import resources
from tests.leases.rows import POOL, force
from tests.threads import in_thread
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("live_db")

Make = Callable[..., AbstractAsyncContextManager[Any]]
T = TypeVar("T")
THREADS = "ddt-lease-of-coroutine"


@pytest.fixture(params=["mutex", "pool"])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "mutex":
        return lambda **options: mutex("index", **options)
    Pool(POOL).add("a")
    return Pool(POOL).lease


def run(main: Callable[[], Awaitable[Any]]) -> Any:
    """Run it in an event loop, and wait for the threads that it has left."""
    before = set(threads_of_leases())
    try:
        return in_thread(lambda: asyncio.run(main()))  # type: ignore[arg-type]
    finally:
        for thread in set(threads_of_leases()) - before:
            thread.join(60)
            assert not thread.is_alive()


def threads_of_leases() -> list[Any]:
    return [thread for thread in enumerate_threads() if thread.name == THREADS]


async def until(event: Event) -> None:
    assert await asyncio.to_thread(event.wait, 60)


async def query(call: Callable[[], T]) -> T:
    return await asyncio.to_thread(in_thread, call)


def is_free() -> bool:
    return not Resource.objects.exclude(holder="").exists() and not renewer.leases() and not Waiter.objects.exists()


def test_it_is_held_in_the_block(make: Make) -> None:
    async def main() -> None:
        async with make(wait=0) as held:
            assert held.is_held
            await query(held.check)
            with pytest.raises(ResourceUnavailable):
                async with make(wait=0):
                    pass
        assert not held.is_held

    run(main)
    assert is_free()


def test_it_is_given_back_when_the_block_fails(make: Make) -> None:
    async def main() -> None:
        async with make():
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        run(main)
    assert is_free()


def test_it_is_given_back_when_the_block_is_cancelled(make: Make) -> None:
    async def main() -> None:
        has_begun = asyncio.Event()

        async def hold() -> None:
            async with make():
                has_begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hold())
        await has_begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await query(is_free)

    run(main)


def test_state_is_left_to_the_next_holder() -> None:
    async def main() -> int:
        async with mutex("index", state={"runs": 0}) as lease:
            lease.state["runs"] += 1
            return int(lease.state["runs"])

    assert [run(main), run(main)] == [1, 2]


def test_a_lost_one_writes_no_state() -> None:
    async def main() -> None:
        async with mutex("index") as lease:
            lease.state["x"] = 1
            await query(lambda: force(lease))
            with pytest.raises(LeaseLost):
                await query(lease.check)

    run(main)
    assert not Resource.objects.get().state


class Standing:
    """Notes when a contender has taken a place in the wait queue."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_come = Event()
        look = waiting.look

        def note(alias: str, wanted: Any, place: int = waiting.LAST) -> Any:
            view = look(alias, wanted, place)
            if place != waiting.LAST:
                self.has_come.set()
            return view

        monkeypatch.setattr(waiting, "look", note)


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


class Held:
    """Stops a thread that has just acquired its lease, until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_acquired, self.go_on = Event(), Event()
        details = resources.details

        def stop(*arguments: Any) -> Any:
            found = details(*arguments)
            self.is_acquired.set()
            assert self.go_on.wait(60)
            return found

        monkeypatch.setattr(resources, "details", stop)


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
    wrap = asyncio.wrap_future

    def cancel_when_done(future: Any) -> Any:
        monkeypatch.undo()
        wrapped, task = wrap(future), asyncio.current_task()
        assert task
        wrapped.add_done_callback(lambda _: task.cancel())  # called before the callback that resumes the task
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


def test_many_that_wait_do_not_stop_the_holder(make: Make) -> None:
    """More of them than a pool of threads has."""
    count = 40
    order: list[int] = []

    async def main() -> None:
        async def work(number: int) -> None:
            async with make(wait=120):
                order.append(number)

        await asyncio.gather(*map(work, range(count)))

    run(main)
    assert sorted(order) == list(range(count))
    assert is_free()


def test_each_thread_closes_its_connections(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    monkeypatch.setattr(
        asynchronous, "connections", type("Noted", (), {"close_all": staticmethod(lambda: closed.append(close()))})
    )

    def close() -> int:
        connections.close_all()
        return get_ident()

    async def main() -> None:
        async with make():
            pass

    run(main)
    assert len(closed) == 2


def test_a_task_does_not_wait_for_itself() -> None:
    async def main() -> None:
        async with mutex("index"):
            with pytest.raises(ResourceUnavailable, match="is held by this asyncio task, which would wait for itself"):
                await mutex("index", wait=None).__aenter__()

    run(main)


def test_another_task_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id of a thread that has ended is used again, and says nothing of who holds the mutex."""
    standing = Standing(monkeypatch)

    async def main() -> int:
        async with mutex("index"):
            task = asyncio.create_task(mutex("index", wait=60).__aenter__())
            await until(standing.has_come)
        lease = await task
        await query(lease.release)
        return int(lease.token)

    assert run(main) == Resource.objects.get().version


VARIABLE: ContextVar[int] = ContextVar("VARIABLE")


def test_a_validator_is_called_in_the_thread_with_the_context() -> None:
    Pool(POOL).add("a")
    seen: list[Any] = []

    def valid(resource: Any) -> bool:
        seen.extend([VARIABLE.get(), current_thread().name])
        return Resource.objects.exists()  # a query is allowed here

    async def main() -> None:
        VARIABLE.set(7)
        async with Pool(POOL).lease(valid=valid):
            pass

    run(main)
    assert seen == [7, THREADS]


def test_a_resource_is_replaced_in_a_thread() -> None:
    for name in "ab":
        Pool(POOL).add(name)

    async def main() -> str:
        async with Pool(POOL).lease(wait=0) as resource:
            await query(resource.replace)
            return str(resource.name)

    assert run(main) == "b"
    assert is_free()


def test_one_object_serves_one_block() -> None:
    Pool(POOL).add("a")
    once, guard = Pool(POOL).lease(), mutex("index")

    async def main() -> None:
        async with once, guard:
            with pytest.raises(RuntimeError, match=r"call lease\(\) again"):
                async with once:
                    pass
            with pytest.raises(RuntimeError, match="already holds the mutex"):
                async with guard:
                    pass
        async with guard:
            pass

    run(main)
    with pytest.raises(RuntimeError, match=r"call lease\(\) again"), once:
        pass
    assert is_free()


def test_what_is_raised_after_the_cancellation_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    held = Held(monkeypatch)

    def fail(resource: Any) -> bool:
        raise ValueError("of the validator")

    async def main() -> None:
        task = asyncio.create_task(Pool(POOL).lease(valid=fail).__aenter__())
        await until(held.is_acquired)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        held.go_on.set()

    Pool(POOL).add("a")
    run(main)
    assert "ValueError: of the validator" in caplog.text
    assert is_free()


def test_the_loop_is_closed_before_the_thread_ends(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def main() -> None:
        asyncio.create_task(make(wait=0).__aenter__())  # noqa: RUF006
        await until(held.is_acquired)

    def loop() -> None:
        asyncio.run(main())  # cancels the task
        held.go_on.set()

    in_thread(loop)
    wait_until(lambda: not threads_of_leases())
    assert is_free()
