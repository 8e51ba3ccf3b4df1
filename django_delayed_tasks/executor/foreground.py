"""An executor in the foreground of its own process: signals, exit codes, progress."""

import logging
import os
import signal
from collections.abc import Callable
from threading import Event
from types import FrameType
from typing import TextIO

from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.progress import ProgressBar
from django_delayed_tasks.store.finding import count_due

logger = logging.getLogger(__name__)

RESTART = 75
"""Exit code of a process with too many hanging threads: start it again (EX_TEMPFAIL of sysexits.h)."""
_LOOK_EVERY = 0.1


class StopSignals:
    """SIGTERM and SIGINT end the process in good order, a second one at once."""

    def __init__(self) -> None:
        self.stop = Event()
        self.number: int | None = None

    def install(self) -> None:
        """From now on, in the main thread."""
        signal.signal(signal.SIGTERM, self._received)
        signal.signal(signal.SIGINT, self._received)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.stop.is_set():
            os._exit(128 + number)
        self.number = number
        self.stop.set()


def run_executor(options: ExecutorOptions, stream: TextIO, signals: StopSignals, ready: Callable[[int], None]) -> int:
    """Run until a signal comes, or all is drained; the exit code.

    ``ready(id)`` is called when the executor is registered.

    Raises:
        NameInUse: a live executor has this name.
    """
    executor = Executor(options)
    progress = ProgressBar(count_due(options.database), stream) if options.drain else None
    executor.start()
    ready(executor.lease.executor)
    while not (signals.stop.is_set() or executor.drained.is_set() or executor.worn_out.is_set()):
        signals.stop.wait(_LOOK_EVERY)
        if progress:
            progress.show(executor.inflight.settled)
    executor.stop()
    if progress:
        progress.close(executor.inflight.settled)
    return RESTART if executor.worn_out.is_set() else 0
