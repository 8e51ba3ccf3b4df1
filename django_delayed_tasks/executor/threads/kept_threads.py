"""Threads in which coroutines call functions that block, such as queries of the database."""

import sys
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from django_delayed_tasks import clock
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.support.exits import in_one_process

P = ParamSpec("P")
R = TypeVar("R")

IDLE: Final = 2.0
"""Seconds after which an idle thread checks that its connections still work."""
FRAMES: Final = 6
"""The innermost frames that are shown of what a thread executes."""


class Call(NamedTuple):
    """A call that waits for a thread, and the context of the coroutine that waits for it."""

    future: "Future[Any]"
    function: Callable[[], Any]
    context: Context


class Stuck(NamedTuple):
    """A call that has kept its thread for ``seconds``: the context that it belongs to, and where it is."""

    context: Context
    seconds: float
    stack: str


class KeptThreads(ThreadPoolExecutor):
    """Up to ``size`` threads, started when needed, whose connections are treated as those of worker threads are.

    A thread whose call does not end can be given up: another takes its place, and it ends after that call.

    It is a ThreadPoolExecutor because an event loop accepts nothing else as its default. The threads of that class
    would keep a process from ending while a call hangs; these are daemons.
    """

    def __init__(self, name: str, alias: str, size: int) -> None:
        self._name = name
        self._alias = alias
        self._size = size
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._idle = Semaphore(0)
        self._lock = Lock()
        self._number = 0
        self._kept: list[_KeptThread] = []
        self._given_up: list[_KeptThread] = []

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Let a thread call the function; return the future of its result."""
        future: Future[R] = Future()
        self._calls.put(Call(future, partial(fn, *args, **kwargs), copy_context()))
        with self._lock:
            if not self._idle.acquire(blocking=False) and len(self._kept) < self._size:
                self._start()
        return future

    def _start(self) -> None:
        self._number += 1
        thread = _KeptThread(self, f"{self._name}-{self._number}")
        self._kept.append(thread)
        thread.start()

    def stalled_for(self) -> float:
        """Return for how many seconds calls have waited because each thread is busy with one; 0 if none waits."""
        kept = list(self._kept)
        if self._calls.empty() or len(kept) < self._size:
            return 0.0
        return min(thread.busy_for() for thread in kept)

    def replace_stuck(self, seconds: float, most: int) -> list[Stuck]:
        """Give up the threads that have been busy with one call for ``seconds``, if calls wait for a thread.

        Return what these threads do. No more than ``most`` threads are given up at the same time.
        """
        with self._lock:
            self._given_up = [thread for thread in self._given_up if thread.is_alive()]
            if self.stalled_for() < seconds or self._calls.empty():
                return []
            stuck = []
            for thread in self._kept[: max(0, most - len(self._given_up))]:
                if found := thread.stuck():
                    stuck.append(found)
                    self._kept.remove(thread)
                    self._given_up.append(thread)
                    self._start()
            return stuck

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

    def next_call(self) -> Call | None:
        """Wait for the next call; None tells the thread to end."""
        return self._calls.get()

    def is_done(self, thread: "_KeptThread") -> bool:
        """Note that a thread has ended its call; return whether it was given up meanwhile, and is to end."""
        with self._lock:
            if thread not in self._kept:
                return True
            self._idle.release()
            return False

    @property
    def is_connected(self) -> bool:
        """Whether a thread has a connection open."""
        return any(thread.is_connected for thread in list(self._kept))

    @property
    def alias(self) -> str:
        """The database whose connections the threads keep."""
        return self._alias


class _KeptThread(Thread):
    """One of the threads: it makes one call after the other."""

    def __init__(self, threads: KeptThreads, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._threads = threads
        self._current: tuple[float, Context] | None = None
        self._own: kept_connections.OfThread | None = None

    @property
    def is_connected(self) -> bool:
        """Whether its connection is open."""
        return self._own is not None and self._own.connection.connection is not None

    def busy_for(self) -> float:
        """Return for how many seconds it has been making its current call; 0 if there is none."""
        current = self._current
        return 0.0 if current is None else clock.monotonic() - current[0]

    def stuck(self) -> Stuck | None:
        """Return what it is doing; None if that is nothing."""
        current = self._current
        return current and Stuck(current[1], clock.monotonic() - current[0], stack_of(self))

    def run(self) -> None:
        with kept_connections.of_thread(self._threads.alias, is_shared=True) as own:
            last, self._own = clock.monotonic(), own
            while (call := self._threads.next_call()) is not None:
                self._current = clock.monotonic(), call.context
                own.refresh(clock.monotonic() - last > IDLE)
                _do(call)
                call = self._current = None  # the next call would keep the result, and the context
                own.tidy()
                last = clock.monotonic()
                if self._threads.is_done(self):
                    return


def _do(call: Call) -> None:
    if not call.future.set_running_or_notify_cancel():
        return
    try:
        result = in_one_process(call.function)
    except BaseException as error:
        kept_connections.note_error(error)
        call.future.set_exception(error)
    else:
        call.future.set_result(result)


def stack_of(thread: Thread | None) -> str:
    """Return the innermost frames of what a thread executes at the moment; an empty string if it does not run."""
    frame = sys._current_frames().get(thread.ident or 0) if thread else None
    return "".join(traceback.format_stack(frame)[-FRAMES:]) if frame else ""
