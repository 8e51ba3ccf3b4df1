"""``starttask --reload``: Django's reloader around an executor, which stops gracefully before it starts again."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from threading import Event
from types import FrameType

from django.core.management.base import CommandError
from django.utils import autoreload

from django_delayed_tasks.executor.process.foreground import RESTART, StopSignals

CHANGED = 3
"""Exit code by which the child of Django's reloader asks to be started again."""


def run_with_reloader(run: Callable[[StopSignals], int], patience: float) -> int:
    """Call ``run(signals)`` in a child process, again after each change of the code; return the last exit code.

    ``run`` has ``patience`` seconds to return after a signal or a change.
    """
    if os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) == "true":
        _run_in_child(run, patience)
    return _restart_child()


def _restart_child() -> int:
    """Do as Django's ``restart_with_reloader``, which at a signal would kill the child with the runs in it."""
    environment = {**os.environ, autoreload.DJANGO_AUTORELOAD_ENV: "true"}
    came: list[int] = []
    children: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        came.append(number)
        for child in children:
            child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    code = CHANGED
    while code == CHANGED and not came:
        children[:] = [child := subprocess.Popen(autoreload.get_child_arguments(), env=environment, close_fds=False)]
        for early in came:  # before it was one of the children
            child.send_signal(early)
        code = child.wait()
    return 0 if code == CHANGED else code if code >= 0 else 128 - code


class _Leaving(StopSignals):
    """At the first signal, the main thread leaves Django's reloader as well."""

    def stop(self, number: int) -> None:
        super().stop(number)
        sys.exit(0)


def _run_in_child(run: Callable[[StopSignals], int], patience: float) -> None:
    # A terminal sends Ctrl-C to both processes, and the parent passes it on: the same signal again is ignored.
    signals, has_begun, has_ended = _Leaving(doubling=2.0), Event(), Event()

    def run_in_thread() -> None:  # as Django requires
        has_begun.set()
        try:
            code = run(signals)
        except CommandError as error:
            _exit(1, f"CommandError: {error}\n")
        finally:
            has_ended.set()
        if code == RESTART:
            _exit(CHANGED)

    with signals.installed():
        try:
            autoreload.start_django(autoreload.get_reloader(), run_in_thread)
        finally:
            # In the main thread, and not at exit, after which no thread can be started.
            if signals.number is None:  # the code has changed
                StopSignals.stop(signals, signal.SIGTERM)
            if has_begun.is_set():
                has_ended.wait(patience)


def _exit(code: int, message: str = "") -> None:
    # sys.exit would end only this thread.
    sys.stderr.write(message)
    sys.stderr.flush()
    os._exit(code)
