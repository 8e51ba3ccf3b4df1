"""Running a command to its end, and ending it with this process when a signal arrives."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from harness.servers.processes import die_with_parent

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Interrupted(BaseException):
    """SIGTERM, SIGINT or SIGHUP arrived."""

    def __init__(self, signum: int) -> None:
        self.signum = signum


def catch_signals() -> None:
    """Have the signals that end a process raise Interrupted."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise Interrupted(signum)

    for number in ENDING_SIGNALS:
        signal.signal(number, interrupt)


@contextmanager
def signals_ignored() -> Iterator[None]:
    """Ignore the signals that end a process, so that a second one does not interrupt cleaning up."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    yield


def run_command(command: Sequence[str], extra: Mapping[str, str], *, pass_on: int, grace: float) -> int:
    """Run `command` with `extra` in its environment; its exit status as a shell would give it.

    When this process is interrupted, the command gets the signal `pass_on` and `grace` seconds to end; after
    a SIGINT only the time, since the terminal has sent the signal to it as well.
    """
    process = start_command(command, extra, pass_on=pass_on)
    try:
        process.wait()
    except Interrupted as interrupted:
        end_commands([process], interrupted, pass_on=pass_on, grace=grace)
        raise
    return status_of(process)


def start_command(
    command: Sequence[str], extra: Mapping[str, str], *, pass_on: int, output: int | None = None
) -> "subprocess.Popen[bytes]":
    """Start `command` with `extra` in its environment, its output to the file `output` if there is one.

    It begins with the signals' usual meaning, and gets `pass_on` when the thread that started it ends.
    """
    return subprocess.Popen(
        command,
        env={**os.environ, **extra},
        stdout=output,
        stderr=output,
        preexec_fn=lambda: die_with_parent(pass_on),
    )


def end_commands(
    processes: Sequence["subprocess.Popen[bytes]"], interrupted: Interrupted, *, pass_on: int, grace: float
) -> None:
    """Pass the interruption on to all of them, and kill what has not ended after `grace` seconds."""
    if interrupted.signum != signal.SIGINT:
        for process in processes:
            process.send_signal(pass_on)
    deadline = time.monotonic() + grace
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def status_of(process: "subprocess.Popen[bytes]") -> int:
    """Return how a process ended, as a shell would give it."""
    status = process.wait()
    return status if status >= 0 else 128 - status
