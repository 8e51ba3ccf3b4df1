"""Runs an executor in the foreground of its own process: signals, exit codes, progress."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Timer
from types import FrameType
from typing import Any, TextIO

from django.db import DatabaseError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.process.probes import ProbedExecutor, ProbeTarget
from django_delayed_tasks.executor.process.progress_bar import ProgressBar, drained
from django_delayed_tasks.executor.tally import tally_of
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.schedules.find import count_due
from django_delayed_tasks.support import forks
from django_delayed_tasks.support.durations import listed

RESTART = 75
"""Exit code of a process that must be restarted, as when too many threads hang (EX_TEMPFAIL of sysexits.h)."""
NOT_CLEAN = 1
"""Exit code of a process that has left runs behind, or could not write how they ended."""


_HANG_UP = getattr(signal, "SIGHUP", None)


def stopping_signals() -> list[int]:
    """Return the signals that stop an executor; without SIGHUP, if it is ignored, as below ``nohup``."""
    hang_up = [one for one in signal.valid_signals() if one == _HANG_UP and signal.getsignal(one) != signal.SIG_IGN]
    return [signal.SIGTERM, signal.SIGINT, *hang_up]


class StopSignals:
    """SIGTERM, SIGINT and SIGHUP stop the process gracefully; a second one ends it at once, unless it is a SIGHUP.

    ``number`` is the signal that came, or None. It is looked at between pauses, and announced by no Event or queue: a
    signal handler that sets the event while the main thread is inside its ``wait`` would wait for the lock of that call
    for ever. A queue's ``get`` whose time is over before it begins to wait may do so without end.

    The same signal again within ``doubling`` seconds is ignored: systemd signals every process of a service, and a
    supervisor passes on the signal that it gets. SIGHUP comes together with other signals when a session ends.
    """

    def __init__(self, doubling: float = 0.0) -> None:
        self.number: int | None = None
        self._doubling = doubling
        self._came = float("-inf")
        self._pid = os.getpid()
        self._before: dict[int, Any] = {}
        self._interrupted: int | None = None

    @contextmanager
    def installed(self) -> Iterator["StopSignals"]:
        """Handle the signals within a ``with`` block of the main thread."""
        self._before = {number: signal.signal(number, self._received) for number in stopping_signals()}
        _installed.append(self)
        try:
            yield self
        finally:
            _installed.remove(self)
            for number in self._before:
                self._restore(number)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            self._received_by_child(number)
        elif self._came == float("-inf"):
            self._came = clock.monotonic()
            self.stop(number)
        elif number != _HANG_UP and (number != self.number or clock.monotonic() - self._came > self._doubling):
            os._exit(128 + number)

    def _received_by_child(self, number: int) -> None:
        """End a process that a handler has forked, but not at the first SIGINT.

        A terminal sends that to all processes, and the run that needs this process is to finish.
        """
        if number == signal.SIGINT and self._interrupted != os.getpid():
            self._interrupted = os.getpid()
            return
        self._restore(number)
        os.kill(os.getpid(), number)

    def _restore(self, number: int) -> None:
        signal.signal(number, self._before.get(number) or signal.SIG_DFL)

    def leave_to_child(self) -> None:
        """Let SIGTERM end this forked process, as multiprocessing ends its workers.

        A handler in Python would be called when a system call ends that has just begun, which may be never.
        """
        with suppress(ValueError):  # the fork is noticed late, in another thread
            self._restore(signal.SIGTERM)

    def stop(self, number: int) -> None:
        """Act as if this signal had come."""
        self.number = number

    def wait(self, seconds: float = 0.1) -> bool:
        """Pause for ``seconds`` if no signal has come; return whether to stop."""
        if self.number is None:
            time.sleep(seconds)
        return self.number is not None


_installed: list[StopSignals] = []


def _leave_to_child() -> None:
    for signals in _installed:
        signals.leave_to_child()


forks.forget_in_child(_leave_to_child)


def run_executor(
    options: ExecutorOptions,
    stream: TextIO,
    signals: StopSignals,
    ready: Callable[[], None],
    watched: Callable[[ProbeTarget], AbstractContextManager[None]] = lambda executor: nullcontext(),
) -> int:
    """Run an executor until a signal comes, it is drained, or it must be restarted; return the exit code.

    ``ready()`` is called when the executor is registered, before its first task starts. It starts and stops within
    ``watched(executor)``.

    Raises:
        NameInUse: a live executor has this name.
    """
    executor = Executor(options)
    alias = options.database
    progress = _Progress(alias, stream) if options.drain else None
    with watched(ProbedExecutor(executor)):
        return _run(executor, progress, stream, signals, ready)


class _Progress:
    """The progress of a drain: the runs of this process that have ended since, by outcome.

    Claims that were released, as those that wait for a slot of their key, have not ended. Tasks that expired have, and
    are no runs.
    """

    def __init__(self, alias: str, stream: TextIO) -> None:
        self._alias = alias
        self._before = self._ended()
        self._bar = ProgressBar(count_due(alias), stream, self._last_line)

    def show(self) -> None:
        """Draw the bar, if there is a terminal."""
        self._bar.show(self._since().total())

    def close(self) -> None:
        """Write the last line."""
        self._bar.close(self._since().total())

    def _last_line(self, count: int) -> str:
        since = self._since()
        return drained(count - since[RunOutcome.EXPIRED], since[RunOutcome.FAILED], since[RunOutcome.RETRIED])

    def _since(self) -> Counter[int]:
        return self._ended() - self._before

    def _ended(self) -> Counter[int]:
        counts: Counter[int] = Counter()
        for (_code, outcome), cell in tally_of(self._alias).totals().ends.items():
            if outcome != RunOutcome.LOST:
                counts[outcome] += cell.runs
        return counts


def _run(
    executor: Executor,
    progress: _Progress | None,
    stream: TextIO,
    signals: StopSignals,
    ready: Callable[[], None],
) -> int:
    if not _start(executor, stream, signals, ready):
        return 0
    try:
        while not (executor.drained.is_set() or executor.worn_out.is_set() or signals.wait()):
            if progress:
                progress.show()
    finally:
        is_clean = _stop(executor, stream)
    if progress:
        progress.close()
        if codes := sorted(executor.admission.without_handler):
            _say(stream, _("Left to wait: due tasks without a handler (%s).") % listed(codes))
    elif is_clean and signals.number is not None:
        _say(stream, _("Stopped."))
    if executor.worn_out.is_set():
        return RESTART
    return 0 if is_clean else NOT_CLEAN


def _start(executor: Executor, stream: TextIO, signals: StopSignals, ready: Callable[[], None]) -> bool:
    """Start the executor; return False if it cannot start and is not to either, since a signal has come meanwhile."""
    try:
        executor.start(ready)
    except (TaskException, DatabaseError) as error:
        if signals.number is None:
            raise
        _say(stream, str(error))
        return False
    return True


def _stop(executor: Executor, stream: TextIO) -> bool:
    """Stop the executor, and say how many runs this waits for; after a while also which.

    Return False if tasks were left behind.
    """
    if count := len(executor.current()):
        text = ngettext(
            "Stopping; waiting for %(count)d run to end, %(seconds)s s at most. "
            "A second signal ends the process at once.",
            "Stopping; waiting for %(count)d runs to end, %(seconds)s s at most. "
            "A second signal ends the process at once.",
            count,
        )
        _say(stream, text % {"count": count, "seconds": f"{executor.options.shutdown_timeout:g}"})
    timer = Timer(5.0, _say_which, (executor, stream))
    timer.daemon = True
    timer.start()
    try:
        return executor.stop()
    finally:
        timer.cancel()


def _say_which(executor: Executor, stream: TextIO) -> None:
    if runs := executor.current():
        _say(stream, _("Still waiting for %s.") % listed([running.with_age for running in runs]))


def _say(stream: TextIO, line: str) -> None:
    with suppress(OSError, ValueError):  # the reader of the output has gone
        stream.write(f"{line}\n")
        stream.flush()
