"""``starttask --reload``: Django's reloader around an executor, which stops gracefully before it starts again."""

import os
import signal
import sys
from collections.abc import Callable
from threading import Event

from django.core.management.base import CommandError
from django.utils import autoreload

from django_delayed_tasks.executor.process.foreground import RESTART, StopSignals


def run_with_reloader(run: Callable[[StopSignals], int], patience: float) -> None:
    """Call ``run(signals)`` in a thread, as the reloader requires, and signal it to stop when the reloader ends.

    ``run`` then has ``patience`` seconds to return.
    """
    signals, has_begun, has_ended = StopSignals(), Event(), Event()

    def run_in_thread() -> None:
        has_begun.set()
        try:
            code = run(signals)
        except CommandError as error:
            _exit(1, f"CommandError: {error}\n")
        finally:
            has_ended.set()
        if code == RESTART:
            _exit(3)  # by which Django's reloader starts it again

    try:
        autoreload.run_with_reloader(run_in_thread)
    finally:
        # In the main thread, and not at exit, after which no thread can be started.
        signals.stop(signal.SIGTERM)
        if has_begun.is_set():
            has_ended.wait(patience)


def _exit(code: int, message: str = "") -> None:
    # sys.exit would end only this thread.
    sys.stderr.write(message)
    sys.stderr.flush()
    os._exit(code)
