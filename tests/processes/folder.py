"""A folder that the test shares with its child processes: what happened, and gates that hold a handler still."""

import fcntl
import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.processes_of_folder import VARIABLE

GATES = "DDT_PROCESS_GATES"
EVENTS = "events"
"""The file that has what would be sent to Sentry, an event a line."""


@dataclass(frozen=True)
class Note:
    """Something that a handler did; ``at`` is by the database's clock."""

    event: str
    code: str
    num: str
    attempts: int
    pid: int
    at: datetime | None


def write_note(event: str, code: str, num: str, attempts: int, at: datetime | None = None) -> None:
    """In a child: one line, written whole however many processes write."""
    note = {"event": event, "code": code, "num": num, "attempts": attempts, "pid": os.getpid()}
    line = json.dumps({**note, "at": at and at.isoformat()}) + "\n"
    file = os.open(Path(os.environ[VARIABLE], "notes"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def pass_gate(num: str) -> None:
    """In a child: wait until no process holds this gate shut. A child may have gates of its own (``GATES``)."""
    name = os.environ.get(GATES, "gate") + "-" + num
    with Path(os.environ[VARIABLE], name).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_SH)


class Gate:
    """Held shut by the test until :meth:`open`, or until its process ends."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def open(self) -> None:
        self._file.close()


class Folder:
    """The test's side."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._gates: list[Gate] = []

    def shut(self, num: str, gates: str = "gate") -> Gate:
        """A gate before the task of this number, shut from now on."""
        gate = Gate(self.path / f"{gates}-{num}")
        self._gates.append(gate)
        return gate

    def open_all(self) -> None:
        for gate in self._gates:
            gate.open()

    def notes(self, event: str, num: str | None = None, **wanted: Any) -> list[Note]:
        """Return what was noted so far, in order."""
        path = self.path / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        notes = [_read(line) for line in lines]
        wanted |= {"event": event} if num is None else {"event": event, "num": num}
        return [note for note in notes if all(getattr(note, name) == value for name, value in wanted.items())]

    def count(self, event: str) -> int:
        return len(self.notes(event))


def _read(line: str) -> Note:
    values = json.loads(line)
    at = values.pop("at")
    return Note(**values, at=at and datetime.fromisoformat(at))
