"""What a task of a peer does: note when it ran, in a mapped file of its process, at well under a microsecond.

``executed`` and ``started`` run in a worker of a peer, ``executions`` and ``starts`` in the suite. Needs nothing but
the standard library.
"""

import array
import mmap
import os
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import monotonic

FOLDER, CAPACITY = "PEER_FOLDER", "PEER_CAPACITY"
"""In the environment of a worker: where its files go, and the most executions that one process may note."""
SUFFIX = ".times"

_opening = threading.Lock()
_slots: "memoryview[float] | None" = None
_numbers: Iterator[int] = count()


def executed() -> None:
    """Note that a task runs now."""
    slots = _slots or _open()
    slots[next(_numbers)] = monotonic()


def started(sent: float) -> None:
    """Note that a task runs now which was sent at that moment (monotonic seconds); a worker notes only such tasks."""
    slots, now = _slots or _open(), monotonic()
    number = 2 * next(_numbers)
    slots[number], slots[number + 1] = now - sent, now


def _open() -> "memoryview[float]":
    """The file of this process, full of zeros."""
    global _slots
    with _opening:
        if _slots is None:
            path = Path(os.environ[FOLDER]) / f"{os.getpid()}{SUFFIX}"
            with path.open("w+b") as file:
                file.truncate(16 * int(os.environ[CAPACITY]))
                _slots = memoryview(mmap.mmap(file.fileno(), 0)).cast("d")
        return _slots


def _begin_anew() -> None:
    """A forked process has a file of its own."""
    global _slots, _numbers, _opening
    _slots, _numbers, _opening = None, count(), threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)


def executions(folder: Path) -> list[float]:
    """Return when the tasks of all processes ran (monotonic seconds), in no order."""
    return [time for values in _noted(folder) for time in values if time]


def starts(folder: Path) -> list[tuple[float, float]]:
    """Return for each task of :func:`started` when it started (monotonic seconds), and how many seconds late."""
    return [
        (now, late) for values in _noted(folder) for late, now in zip(values[::2], values[1::2], strict=True) if now
    ]


def _noted(folder: Path) -> Iterator["array.array[float]"]:
    for path in folder.glob(f"*{SUFFIX}"):
        content = path.read_bytes()
        yield array.array("d", content[: len(content) // 16 * 16])
