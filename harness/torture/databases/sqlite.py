"""SQLite: a file, which an outage locks for longer than its users wait."""

import sqlite3
from pathlib import Path

from harness.torture.databases.base import Database


class SQLite(Database):
    name = kind = "sqlite"
    vendor = "sqlite"
    has_server = False

    def __init__(self, folder: Path) -> None:
        self._path = folder / "torture.sqlite3"
        self._holder: sqlite3.Connection | None = None

    @property
    def url(self) -> str:
        return f"sqlite:///{self._path}"

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.end_outage()
        for path in self._path.parent.glob(f"{self._path.name}*"):
            path.unlink(missing_ok=True)

    def begin_outage(self) -> None:
        self._holder = sqlite3.connect(self._path, isolation_level=None, timeout=60)
        self._holder.execute("BEGIN EXCLUSIVE")

    def end_outage(self) -> None:
        holder, self._holder = self._holder, None
        if holder:
            holder.close()


def create(folder: Path) -> SQLite:
    return SQLite(folder)
