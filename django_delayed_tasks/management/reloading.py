"""``starttask --reload``: Django's reloader around an executor, with signals passed on."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from types import FrameType

from django.core.management.base import CommandError
from django.utils import autoreload

from django_delayed_tasks.executor.process.foreground import NOT_CLEAN, RESTART, StopSignals, stopping_signals

CHANGED = 3
"""Exit code by which the child of Django's reloader asks to be started again."""


def run_with_reloader(run: Callable[[StopSignals], int]) -> int:
    """Call ``run(signals)`` in a child process, again after each change of the code; return the last exit code.

    A change ends the child at once, as Django's ``runserver``.
    """
    if os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) == "true":
        _run_in_child(run)
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


def _run_in_child(run: Callable[[StopSignals], int]) -> None:
    # A terminal sends Ctrl-C to both processes, and the parent passes it on: the same signal again is ignored.
    signals = StopSignals(doubling=2.0)

    def run_in_thread() -> None:  # as Django requires
        code, message = NOT_CLEAN, ""
        try:
            code = run(signals)
        except CommandError as error:
            code, message = 1, f"CommandError: {error}\n"
        finally:  # sys.exit would end only this thread
            sys.stdout.flush()
            sys.stderr.write(message)
            sys.stderr.flush()
            os._exit(CHANGED if code == RESTART else code)

    with signals.installed():
        autoreload.start_django(autoreload.get_reloader(), run_in_thread)
