"""Running a command to its end, and ending it with this process when a signal arrives."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from tests.servers.processes import die_with_parent

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Interrupted(BaseException):
    """SIGTERM, SIGINT or SIGHUP arrived."""

    def __init__(self, signum: int) -> None:
        self.signum = signum


def catch_signals() -> None:
    """From now on the signals that end a process raise Interrupted."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise Interrupted(signum)

    for number in ENDING_SIGNALS:
        signal.signal(number, interrupt)


@contextmanager
def signals_ignored() -> Iterator[None]:
    """For the end of a process: cleaning up is not interrupted by a second signal."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    yield


def run_command(command: Sequence[str], extra: Mapping[str, str], *, pass_on: int, grace: float) -> int:
    """Run `command` with `extra` in its environment; its exit status as a shell would give it.

    When this process is interrupted, the command gets the signal `pass_on` and `grace` seconds to end; after
    a SIGINT only the time, since the terminal has sent the signal to it as well.
    """
    process = subprocess.Popen(
        command,
        env={**os.environ, **extra},
        # The command starts with the signals' usual meaning, and does not outlive this process.
        preexec_fn=lambda: die_with_parent(pass_on),
    )
    try:
        status = process.wait()
    except Interrupted as interrupted:
        if interrupted.signum != signal.SIGINT:
            process.send_signal(pass_on)
        _wait_or_kill(process, grace)
        raise
    return status if status >= 0 else 128 - status


def _wait_or_kill(process: subprocess.Popen[bytes], grace: float) -> None:
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
