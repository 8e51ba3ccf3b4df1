"""``make`` as a person calls it, but with this Python, whatever virtual environment it is of."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from harness import ROOT

STAMP = ".venv/.installed"
"""The file that says that the virtual environment is up to date."""


class MakeError(AssertionError):
    """``make`` did not end in time; the message has its output."""


def make(
    target: str, *, folder: Path = ROOT, timeout: float = 600.0, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run ``make target`` in ``folder``, with these variables; the output has the errors, too.

    Raises:
        MakeError: it took longer than ``timeout`` seconds.
    """
    words = [f"{name}={value}" for name, value in {"PY": sys.executable, **variables}.items()]
    with subprocess.Popen(
        ["make", "--no-print-directory", "--old-file", STAMP, target, *words],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=timeout)
        except BaseException as error:
            # What make started is in its session, and would continue without it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                output, _ = process.communicate()
                raise MakeError(f"make {target} was not done after {timeout:g} s:\n{output}") from None
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output)
