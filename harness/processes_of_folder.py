"""The processes that a test or a scenario started, at any depth: found by a folder that their environment names."""

import contextlib
import os
import signal
from pathlib import Path

VARIABLE = "DDT_PROCESS_FOLDER"


def processes_of(folder: Path) -> list[int]:
    """The processes, at any depth, whose environment names this folder (Linux tells)."""
    mark = f"{VARIABLE}={folder}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def kill_all(folder: Path) -> None:
    """End all of them; one may start another meanwhile."""
    while pids := processes_of(folder):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
