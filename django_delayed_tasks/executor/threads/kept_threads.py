"""Threads in which coroutines call functions that block, such as queries of the database."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, Final, ParamSpec, TypeVar

from django_delayed_tasks import clock
from django_delayed_tasks.store.sql import kept_connections

P = ParamSpec("P")
R = TypeVar("R")

IDLE: Final = 2.0
"""Seconds after which an idle thread checks that its connections still work."""


class KeptThreads(ThreadPoolExecutor):
    """Up to ``size`` threads, started when needed, whose connections are treated as those of worker threads are.

    It is a ThreadPoolExecutor because an event loop accepts nothing else as its default. The threads of that class
    would keep a process from ending while a call hangs; these are daemons.
    """

    def __init__(self, name: str, alias: str, size: int) -> None:
        self._name = name
        self._alias = alias
        self._size = size
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._idle = Semaphore(0)
        self._lock = Lock()
        self._kept: list[Thread] = []

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Let a thread call the function; return the future of its result."""
        future: Future[R] = Future()
        self._calls.put((future, partial(fn, *args, **kwargs)))
        with self._lock:
            if not self._idle.acquire(blocking=False) and len(self._kept) < self._size:
                thread = Thread(target=self._repeat, name=f"{self._name}-{len(self._kept) + 1}", daemon=True)
                self._kept.append(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads after the calls that wait, and close their connections; a call that hangs is left behind."""
        self.finish(5.0 if wait else 0.0)

    def finish(self, timeout: float) -> None:
        """End the threads, and wait for them up to ``timeout`` seconds."""
        deadline = clock.monotonic() + timeout
        with self._lock:
            kept = list(self._kept)
        for _ in kept:
            self._calls.put(None)
        for thread in kept:
            thread.join(max(0.0, deadline - clock.monotonic()))

    def _repeat(self) -> None:
        with kept_connections.of_thread(self._alias) as own:
            last, losses = clock.monotonic(), kept_connections.losses
            while (call := self._calls.get()) is not None:
                if clock.monotonic() - last > IDLE or kept_connections.losses != losses:
                    losses = kept_connections.losses
                    kept_connections.refresh()
                _do(*call)
                call = None  # the next get() would keep its result
                own.tidy()
                last = clock.monotonic()
                self._idle.release()


def _do(future: "Future[Any]", function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
