"""Threads in which coroutines call functions that block, such as queries of the database."""

import sys
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Semaphore, Thread
from typing import Any, NamedTuple, ParamSpec, TypeVar

from django_delayed_tasks.executor import project
from django_delayed_tasks.executor.threads.crew import Crew, CrewThread, Jobs

P = ParamSpec("P")
R = TypeVar("R")


class Call(NamedTuple):
    """A call that waits for a thread, and ``who`` waits for it: the run of the coroutine."""

    future: "Future[Any]"
    function: Callable[[], Any]
    who: object

    def __str__(self) -> str:
        return str(self.who)


class KeptThreads(ThreadPoolExecutor):
    """Up to ``size`` threads, started when needed, whose connections are treated as those of worker threads are.

    It is a ThreadPoolExecutor because an event loop accepts nothing else as its default. The threads of that class
    would keep a process from ending while a call hangs; these are daemons.
    """

    def __init__(self, name: str, alias: str, size: int) -> None:
        self._calls: Jobs[Call] = Jobs()
        self._crew = Crew(name, alias, self._calls, self._make, _fail, size)
        self._idle = Semaphore(0)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Let a thread call the function; return the future of its result."""
        future: Future[R] = Future()
        self._calls.put(Call(future, partial(fn, *args, **kwargs), project.caller() or "a coroutine"))
        if not self._idle.acquire(blocking=False):
            self._crew.add()
        return future

    def _make(self, thread: CrewThread[Call], call: Call) -> None:
        if call.future.set_running_or_notify_cancel():
            try:
                result = project.within(call.who, project.work, call.who, call.function)
            except BaseException as error:
                call.future.set_exception(error)
            else:
                call.future.set_result(result)
        self._idle.release()

    def stalled_for(self) -> float:
        """Return for how many seconds calls have waited because each thread is busy with one; 0 if none waits."""
        threads = list(self._crew.threads)
        if self._calls.empty() or len(threads) < self._crew.size:
            return 0.0
        return min(thread.busy_for() for thread in threads)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads after the calls that wait, and close their connections; a call that hangs is left behind."""
        self.finish(5.0 if wait else 0.0)

    def finish(self, timeout: float) -> None:
        """End the threads, and wait for them up to ``timeout`` seconds."""
        self._crew.finish(timeout)

    @property
    def is_connected(self) -> bool:
        """Whether a thread has a connection open."""
        return any(thread.is_connected for thread in list(self._crew.threads))


def _fail(call: Call, error: BaseException) -> None:
    if not call.future.done():
        call.future.set_exception(error)


def stack_of(thread: Thread | None) -> str:
    """Return the innermost frames of what a thread executes at the moment; an empty string if it does not run."""
    frame = sys._current_frames().get(thread.ident or 0) if thread else None
    return "".join(traceback.format_stack(frame)[-6:]) if frame else ""
