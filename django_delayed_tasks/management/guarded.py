"""A child process that may run only while a mutex is held."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from django.utils.translation import gettext as _

from django_delayed_tasks.leases import MutexLease

LOST: Final = 76
"""Exit code if the command was ended because the mutex was lost."""
LOOK_EVERY: Final = 0.05
"""Seconds between two looks whether the mutex is held."""
PASSED_ON: Final = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


class GuardedCommand:
    """Runs a command in a session of its own, so that all processes that it starts can be ended with it.

    The command finds the mutex's name and token in its environment, as ``MUTEX_NAME`` and ``MUTEX_TOKEN``.
    """

    def __init__(self, command: Sequence[str], lease: MutexLease) -> None:
        self._command = command
        self._lease = lease

    def run(self) -> int:
        """Run the command to its end, or until the mutex is lost; return the exit code, as a shell does."""
        environment = {**os.environ, "MUTEX_NAME": self._lease.name, "MUTEX_TOKEN": str(self._lease.token)}
        with _signals_kept() as signals:
            try:
                process = subprocess.Popen(
                    self._command, env=environment, start_new_session=True, preexec_fn=_dies_with_parent()
                )
            except FileNotFoundError:
                return _cannot_run(self._command[0], _("not found"), 127)
            except OSError as error:
                return _cannot_run(self._command[0], error.strerror or _("cannot be run"), 126)
            signals.pass_to(process)
            return self._watch(process)

    def _watch(self, process: "subprocess.Popen[bytes]") -> int:
        while (code := _wait(process, LOOK_EVERY)) is None:
            if not self._lease.is_held:
                self._end(process)
                return LOST
        return code if code >= 0 else 128 - code

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        # A lease is trusted for two thirds of its ttl: during the last third no other process can acquire it, unless
        # it is released by force.
        _send(process, signal.SIGTERM)
        _wait(process, self._lease.ttl.total_seconds() / 3 - LOOK_EVERY)
        _send(process, signal.SIGKILL)
        process.wait()


class PassedOn:
    """Passes signals on to the command; those that came before its start, once it has started."""

    def __init__(self) -> None:
        self._early: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None

    def received(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal of this process."""
        if self._process is None:
            self._early.append(number)
        else:
            _send(self._process, number)

    def pass_to(self, process: "subprocess.Popen[bytes]") -> None:
        """Pass signals on to this process, and to those that it starts, from now on."""
        self._process = process
        for number in self._early:
            _send(process, number)


@contextmanager
def _signals_kept() -> Iterator[PassedOn]:
    passed_on = PassedOn()
    numbers = [getattr(signal, name) for name in PASSED_ON]
    before = {number: signal.signal(number, passed_on.received) for number in numbers}
    try:
        yield passed_on
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _send(process: "subprocess.Popen[bytes]", number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    try:
        return process.wait(max(seconds, 0.001))
    except subprocess.TimeoutExpired:
        return None


def _dies_with_parent() -> Callable[[], None] | None:
    """Return a function that makes a child get SIGKILL when this process dies; None except on Linux."""
    if not sys.platform.startswith("linux"):
        return None
    prctl, set_parent_death_signal = ctypes.CDLL(None).prctl, 1  # PR_SET_PDEATHSIG, prctl(2)
    return lambda: prctl(set_parent_death_signal, signal.SIGKILL)


def _cannot_run(program: str, why: str, code: int) -> int:
    sys.stderr.write(f"{program}: {why}\n")
    return code
