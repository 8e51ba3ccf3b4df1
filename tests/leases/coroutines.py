"""Coroutines that hold leases: an event loop in a thread, and what it leaves."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from threading import Event
from threading import enumerate as enumerate_threads
from typing import Any, TypeVar

import pytest

from django_delayed_tasks.leases import Pool, mutex
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import Resource, Waiter
from django_delayed_tasks.store.resources import line, resources
from tests.leases.rows import POOL
from tests.threads import in_thread

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


class Standing:
    """Notes when a contender has taken a place in the wait queue."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_come = Event()
        look = line.queue_view

        def note(alias: str, wanted: Any, place: int = line.LAST) -> Any:
            view = look(alias, wanted, place)
            if place != line.LAST:
                self.has_come.set()
            return view

        monkeypatch.setattr(line, "queue_view", note)


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
