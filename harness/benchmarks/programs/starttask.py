"""Real executors that run next to a program: ``python -m django starttask``, on the database of the settings."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 60.0
"""Seconds in which executors must be ready, and end."""


@contextmanager
def starttask(*words: str, executors: int = 1) -> Iterator["subprocess.Popen[str]"]:
    """The command with these options; in the block its ``executors`` are ready. They end in good order after it."""
    with tempfile.TemporaryFile("w+") as output:
        command = [sys.executable, "-m", "django", "starttask", "--skip-checks", *words]
        process = subprocess.Popen(command, stdout=output, text=True, start_new_session=True)
        try:
            _wait_until_ready(process, output.fileno(), executors)
            yield process
            process.terminate()
            process.wait(PATIENCE)
        finally:
            kill(process)


def kill(process: "subprocess.Popen[str]") -> None:
    """Kill the process and its children at once."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_until_ready(process: "subprocess.Popen[str]", output: int, executors: int) -> None:
    patient_until = time.monotonic() + PATIENCE
    while os.pread(output, 1_000_000, 0).count(b"Ready (executor") < executors:
        if process.poll() is not None or time.monotonic() > patient_until:
            raise RuntimeError(f"{' '.join(process.args)} does not get ready")  # type: ignore[arg-type]
        time.sleep(0.05)
