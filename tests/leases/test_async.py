"""``async with`` a mutex or a resource of a pool: no query in the event loop, and nothing held after a cancellation."""

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from threading import current_thread, get_ident
from typing import Any

import pytest
from django.db import connections

from django_delayed_tasks.leases import LeaseLost, Pool, ResourceUnavailable, asynchronous, mutex
from django_delayed_tasks.models import Resource
from tests.leases.coroutines import (
    THREADS,
    Held,
    Make,
    Standing,
    is_free,
    query,
    run,
    threads_of_leases,
    until,
)
from tests.leases.rows import POOL, force
from tests.threads import in_thread
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("live_db")


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


def test_a_stop_iteration_of_the_caller_ends_the_acquisition() -> None:
    """On Python 3.11, what awaits the thread would wait forever: no asyncio future can hold it."""
    Pool(POOL).add("a")

    async def main() -> None:
        async with Pool(POOL).lease(where=lambda resource: next(iter(()))):
            pass

    with pytest.raises(RuntimeError, match="raised StopIteration"):
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
