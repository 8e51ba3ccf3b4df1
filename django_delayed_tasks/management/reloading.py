"""``starttask --reload``: Django's reloader around an executor, which stops gracefully before it starts again."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event
from types import FrameType

from django.core.management.base import CommandError
from django.utils import autoreload

from django_delayed_tasks.executor.process.foreground import NOT_CLEAN, RESTART, StopSignals, stopping_signals

CHANGED = 3
"""Exit code by which the child of Django's reloader asks to be started again."""


def run_with_reloader(run: Callable[[StopSignals], int], patience: float) -> int:
    """Call ``run(signals)`` in a child process, again after each change of the code; return the last exit code.

    ``run`` has ``patience`` seconds to return after a signal or a change.
    """
    if os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) == "true":
        return _run_in_child(run, patience)
    return _restart_child()


def _restart_child() -> int:
    """Restart the child like Django's ``restart_with_reloader``, but let its runs finish when a signal arrives."""
    environment = {**os.environ, autoreload.DJANGO_AUTORELOAD_ENV: "true"}
    came: list[int] = []
    children: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        came.append(number)
        for child in children:
            child.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in stopping_signals()}
    try:
        code = CHANGED
        while code == CHANGED and not came:
            command = autoreload.get_child_arguments()
            children[:] = [child := subprocess.Popen(command, env=environment, close_fds=False)]
            for early in came:  # before it was one of the children
                child.send_signal(early)
            code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0 if code == CHANGED else code if code >= 0 else 128 - code


class _Leaving(StopSignals):
    """At the first signal, the main thread leaves Django's reloader as well."""

    def stop(self, number: int) -> None:
        leaves = self.number is None
        super().stop(number)
        if leaves:
            sys.exit(0)


def _run_in_child(run: Callable[[StopSignals], int], patience: float) -> int:
    # A terminal sends Ctrl-C to both processes, and the parent passes it on: the same signal again is ignored.
    signals, has_begun, codes = _Leaving(doubling=2.0), Event(), SimpleQueue[int]()

    def run_in_thread() -> None:  # as Django requires
        has_begun.set()
        code = NOT_CLEAN
        try:
            code = run(signals)
        except CommandError as error:
            _exit(1, f"CommandError: {error}\n")
        finally:
            codes.put(code)
        if code == RESTART:
            _exit(CHANGED)
        elif signals.number is None:  # it has ended by itself, as with --drain
            _exit(code)

    with signals.installed():
        why = _watch(run_in_thread)
        if why == CHANGED:
            StopSignals.stop(signals, signal.SIGTERM)
        code = _code_of(codes, patience) if has_begun.is_set() else 0
    return CHANGED if why == CHANGED else code


def _watch(main: Callable[[], None]) -> object:
    """Return why the main thread has left Django's reloader: a code of ``sys.exit``."""
    try:
        autoreload.start_django(autoreload.get_reloader(), main)
    except SystemExit as error:
        return error.code
    return CHANGED


def _code_of(codes: "SimpleQueue[int]", patience: float) -> int:
    try:
        return codes.get(timeout=patience)
    except Empty:
        return NOT_CLEAN


def _exit(code: int, message: str = "") -> None:
    # sys.exit would end only this thread.
    sys.stdout.flush()
    sys.stderr.write(message)
    sys.stderr.flush()
    os._exit(code)
