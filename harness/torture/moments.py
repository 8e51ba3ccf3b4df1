"""Moments that executors note in files of the folder, by the host's clock: claims, and deaths by their own hand."""

import os
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_CLAIMS, _DEATHS = "claims-of-", "deaths-of-"


def note_claims(folder: Path, executor: str, tasks: Iterable[Any]) -> None:
    """Note that these tasks have just been claimed, in one write: a process may be killed at any moment."""
    _append(folder / f"{_CLAIMS}{executor}", "".join(f"{task.id} {task.version} {time.time()}\n" for task in tasks))


def note_death(folder: Path, executor: str) -> None:
    """Note that this process is about to end itself."""
    _append(folder / f"{_DEATHS}{executor}", f"{os.getpid()} {time.time()}\n")


def claims(folder: Path) -> dict[int, list[tuple[int, datetime]]]:
    """Return the claims of each task by its id: (version, moment), in the order of the versions."""
    found: dict[int, list[tuple[int, datetime]]] = {}
    for task, version, moment in _lines(folder, _CLAIMS):
        found.setdefault(int(task), []).append((int(version), _moment(moment)))
    return {task: sorted(versions) for task, versions in found.items()}


def deaths(folder: Path) -> list[tuple[int, datetime]]:
    """Return the processes that ended themselves: (pid, moment)."""
    return [(int(pid), _moment(moment)) for pid, moment in _lines(folder, _DEATHS)]


def _append(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _lines(folder: Path, prefix: str) -> Iterator[list[str]]:
    for path in sorted(folder.glob(f"{prefix}*")):
        for line in path.read_text().splitlines():
            yield line.split()


def _moment(text: str) -> datetime:
    return datetime.fromtimestamp(float(text), UTC)
