"""Databases that go away in mid-work and come back, on what the machine of the test owns."""

import contextlib
import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management import call_command
from django.db import DatabaseError, connection, connections

from harness.database_urls import parse
from harness.servers.__main__ import KINDS
from harness.servers.processes import start_as
from harness.servers.server import Server
from tests.processes.waiting import wait_until


class Outage(ABC):
    """A private database."""

    url: str

    @abstractmethod
    def begin(self) -> None:
        """Make the database unreachable."""

    @abstractmethod
    def end(self) -> None:
        """Make the database reachable again."""

    @property
    def environment(self) -> dict[str, str]:
        """What a child needs to know in addition to the URL."""
        return {}


class ServerKilled(Outage):
    """A server of our own, ended with SIGKILL and started again on its port and its data."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.url = server.url

    def begin(self) -> None:
        assert self._server.process is not None
        self._server.process.kill()
        self._server.process.wait()

    def end(self) -> None:
        wait_until(self._has_started)

    def _has_started(self) -> bool:
        server = self._server
        if server.process is None or server.process.poll() is not None:
            # PostgreSQL refuses to start while a process of its predecessor lives.
            server.process = start_as(server.account, server.command(), server.folder, server.log, root=server.root)
        return can_connect()


class FileLocked(Outage):
    """A SQLite file that another process holds for longer than users wait (in a journal mode that bars readers too)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._holder: sqlite3.Connection | None = None
        self.url = f"sqlite:///{path}"

    def begin(self) -> None:
        self._holder = sqlite3.connect(self._path, isolation_level=None, timeout=30)
        self._holder.execute("BEGIN EXCLUSIVE")

    def end(self) -> None:
        if self._holder:
            self._holder.close()

    @property
    def environment(self) -> dict[str, str]:
        return {"DDT_SQLITE_OPTIONS": json.dumps({"timeout": 0.3})}


def can_connect() -> bool:
    """Whether the private database answers."""
    connection.close()
    with contextlib.suppress(DatabaseError):
        connection.ensure_connection()
        return True
    return False


@contextmanager
def private_database(database: str, folder: Path) -> Iterator[Outage]:
    """A private database of this kind, migrated; inside, it is the default one of this process."""
    if database == "sqlite":
        outage = FileLocked(folder / "private.sqlite3")
        with _as_default(outage.url):
            yield outage
            outage.end()
        return
    server = KINDS[database]()
    try:
        server.find()
        server.prepare()
        server.start()
        with _as_default(server.url):
            yield ServerKilled(server)
    finally:
        server.stop()


@contextmanager
def _as_default(url: str) -> Iterator[None]:
    usual, usual_settings = connections["default"], connections.settings["default"]
    entry = {**usual_settings, **parse(url)}
    if usual.vendor == "sqlite":
        entry["OPTIONS"] = {"timeout": 20, "transaction_mode": "IMMEDIATE"}  # and no WAL
    del connections["default"]
    connections.settings["default"] = entry
    try:
        call_command("migrate", "django_delayed_tasks", verbosity=0)
        yield
    finally:
        connections["default"].close()
        connections["default"] = usual
        connections.settings["default"] = usual_settings
