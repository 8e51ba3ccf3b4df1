"""Ends what lives in some folders when its parent has ended, however that came about: ``python -m … FOLDER …``.

Servers that start servers of their own leave them behind when they are killed: these have no parent that could end
them.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness import ROOT
from harness.servers.processes import die_with_parent


def processes_in(folder: Path) -> list[int]:
    """The processes whose working folder is this one, or in it (Linux tells)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if path.readlink().is_relative_to(folder):
                found.append(int(path.parent.name))
    return found


def signal_all(folder: Path, number: int) -> bool:
    """Send a signal to each of them; return whether there were any."""
    found = processes_in(folder)
    for process in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
    return bool(found)


def kill_all(folder: Path) -> None:
    """SIGKILL to all of them, and to those that they start meanwhile."""
    while signal_all(folder, signal.SIGKILL):
        pass


def start_guard(folders: Sequence[Path]) -> "subprocess.Popen[bytes]":
    """Start a process that kills all in these folders when the thread that calls this ends."""

    def setup() -> None:
        # It waits from its beginning on: the parent may end before the program has.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        die_with_parent(signal.SIGTERM)

    return subprocess.Popen(
        [sys.executable, "-m", __name__, *map(str, folders)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=setup,
    )


if __name__ == "__main__":
    signal.sigwait({signal.SIGTERM})
    for name in sys.argv[1:]:
        kill_all(Path(name))
