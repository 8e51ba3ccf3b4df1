"""The event loop of an executor, in a thread of its own that is started when the first coroutine comes."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from threading import Lock, Thread
from typing import Any, TypeVarTuple, Unpack

from asgiref.sync import SyncToAsync, ThreadSensitiveContext

from django_delayed_tasks import clock
from django_delayed_tasks.executor import project
from django_delayed_tasks.executor.threads.kept_threads import KeptThreads, stack_of
from django_delayed_tasks.support.logs import Log

Ts = TypeVarTuple("Ts")

logger = Log(__name__)


class EventLoop:
    """A thread with an event loop, and the threads in which its coroutines call functions that block.

    ``sync_to_async``, and with it Django's async queries, uses one thread for all coroutines, whose connections stay
    open from one query to the next. ``asyncio.to_thread``, and ``sync_to_async(thread_sensitive=False)``, use others.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self.queries = KeptThreads("coroutines' queries", alias, 1)
        self._others = KeptThreads("coroutines' threads", alias, min(32, (os.cpu_count() or 1) + 4))
        self._sensitive = ThreadSensitiveContext()
        self._asked: float | None = None
        self._is_stopping = False

    @property
    def is_running(self) -> bool:
        """Whether there has been anything to run, and the loop was not stopped."""
        return self._loop is not None and not self._loop.is_closed()

    def start(self) -> asyncio.AbstractEventLoop:
        """Start the thread if it is not started yet; return its loop."""
        with self._lock:
            if self._loop is None:
                # What asgiref does with ThreadSensitiveContext(executor=...), which its older releases do not have.
                SyncToAsync.context_to_thread_executor[self._sensitive] = self.queries
                self._loop = asyncio.new_event_loop()
                self._loop.set_default_executor(self._others)
                self._thread = Thread(target=self._repeat, args=[self._loop], name="event loop", daemon=True)
                self._thread.start()
            return self._loop

    def call_soon(self, function: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Let the loop's thread call ``function(*args)`` soon; it must not block."""
        self.start().call_soon_threadsafe(function, *args)

    def create_task(self, coroutine: Coroutine[Any, Any, None], who: object) -> "asyncio.Task[None]":
        """Run a coroutine in a clean context, which is that of ``who``; to be called in the loop's thread."""
        return self.start().create_task(coroutine, name=f"run of {who}", context=self._context(who))

    def _context(self, who: object) -> Context:
        context = project.context_of(who)
        context.run(SyncToAsync.thread_sensitive_context.set, self._sensitive)
        return context

    def _repeat(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._is_stopping:
            try:
                loop.run_forever()
            except BaseException:  # SystemExit in a task that a handler has created
                logger.exception("the event loop continues")
        with suppress(Exception):
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def seconds_blocked(self) -> float:
        """Return for how many seconds the loop has been asked in vain whether it is free; 0 if it answered.

        To be called regularly: each call asks again.
        """
        if self._loop is None or not self.is_running:
            return 0.0
        asked = self._asked
        if asked is not None:
            return clock.monotonic() - asked
        self._asked = clock.monotonic()
        self._loop.call_soon_threadsafe(self._answer)
        return 0.0

    def _answer(self) -> None:
        self._asked = None

    def current_task(self) -> "asyncio.Task[Any] | None":
        """Return the asyncio task that the loop executes at the moment; to be called in another thread."""
        return asyncio.current_task(self._loop) if self._loop else None

    def stack(self) -> str:
        """Return the innermost frames of what the loop's thread executes at the moment."""
        return stack_of(self._thread)

    def stop(self, timeout: float = 1.0) -> None:
        """End the loop and its threads, within about ``timeout`` seconds; what hangs is left behind."""
        if self._loop is None or self._thread is None or not self.is_running:
            return
        self._is_stopping = True
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout)
        self.queries.finish(timeout)
        self._others.finish(timeout)
