"""An executor in the foreground of its own process: signals, exit codes, progress."""

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TextIO

from django_delayed_tasks import clock
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.process.progress_bar import ProgressBar
from django_delayed_tasks.store.schedules.find import count_due

logger = logging.getLogger(__name__)

RESTART = 75
"""Exit code of a process with too many hanging threads: start it again (EX_TEMPFAIL of sysexits.h)."""
_LOOK_EVERY = 0.1


class StopSignals:
    """SIGTERM and SIGINT end the process in good order, a second one at once.

    ``number`` is the signal that came. No Event tells of it: one that arrives while the main thread is inside
    ``Event.wait`` would wait for that wait's lock, for ever.

    The same signal again within ``doubling`` seconds counts as one: systemd signals every process of a service, and
    a supervisor passes on what it gets.
    """

    def __init__(self, doubling: float = 0.0) -> None:
        self.number: int | None = None
        self._doubling = doubling
        self._came = float("-inf")
        self._arrivals: SimpleQueue[int] = SimpleQueue()

    @contextmanager
    def installed(self) -> Iterator["StopSignals"]:
        """In the main thread: from now on, and no more at the end."""
        before = {number: signal.signal(number, self._received) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.number is None:
            self._came = clock.monotonic()
            self.stop(number)
        elif number != self.number or clock.monotonic() - self._came > self._doubling:
            os._exit(128 + number)

    def stop(self, number: int) -> None:
        """As if that signal had come."""
        self.number = number
        self._arrivals.put(number)

    def wait(self, seconds: float) -> bool:
        """Whether to stop; waits so long to learn it."""
        if self.number is None:
            with suppress(Empty):
                self._arrivals.get(timeout=seconds)
        return self.number is not None


def run_executor(options: ExecutorOptions, stream: TextIO, signals: StopSignals, ready: Callable[[int], None]) -> int:
    """Run until a signal comes, or all is drained; the exit code.

    ``ready(id)`` is called when the executor is registered.

    Raises:
        NameInUse: a live executor has this name.
    """
    executor = Executor(options)
    progress = ProgressBar(count_due(options.database), stream) if options.drain else None
    executor.start()
    try:
        ready(executor.lease.executor)
        while not (executor.drained.is_set() or executor.worn_out.is_set() or signals.wait(_LOOK_EVERY)):
            if progress:
                progress.show(executor.inflight.settled)
        if executor.inflight.unfinished:
            stream.write(
                f"Stopping; runs may end within {options.shutdown_timeout:g} s. A second signal ends it now.\n"
            )
            stream.flush()
    finally:
        executor.stop()
    if progress:
        progress.close(executor.inflight.settled)
    return RESTART if executor.worn_out.is_set() else 0
