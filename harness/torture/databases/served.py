"""A database with a server of our own, which is killed with SIGKILL and started again on its port and its data."""

import time

from django.db import DatabaseError, connection

from harness.servers.__main__ import KINDS
from harness.servers.processes import ServerError, start_as
from harness.torture.databases.base import Database

PATIENCE = 90.0
"""Seconds; recovery of a database that was killed under load takes its time."""
BACKENDS = {
    "mysql": "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'ddt'",
    "postgres": (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    ),
}


class Served(Database):
    """MariaDB, MySQL or PostgreSQL, as ``harness.servers`` starts them."""

    has_server = True

    def __init__(self, kind: str, character_set: str = "") -> None:
        self.name = f"{kind}-{character_set}" if character_set else kind
        self.kind = kind
        self.server = KINDS[kind]()
        self.server.character_set = character_set or self.server.character_set
        self.vendor = self.server.scheme

    @property
    def url(self) -> str:
        return self.server.url

    def start(self) -> None:
        self.server.find()
        self.server.prepare()
        self.server.start()

    def stop(self) -> None:
        self.server.stop()

    def begin_outage(self) -> None:
        assert self.server.process is not None
        self.server.process.kill()
        self.server.process.wait()

    def end_outage(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._has_started():
            if time.monotonic() > deadline:
                log = self.server.log.read_text(errors="replace")[-2000:]
                raise ServerError(f"{self.name} did not come back:\n{log}")
            time.sleep(0.05)

    def _has_started(self) -> bool:
        server = self.server
        if server.process is None or server.process.poll() is not None:
            # PostgreSQL refuses to start while a process of its predecessor lives.
            server.process = start_as(server.account, server.command(), server.folder, server.log, root=server.root)
        connection.close()
        try:
            connection.ensure_connection()
        except DatabaseError:
            return False
        return True

    def kill_backends(self) -> int:
        with connection.cursor() as cursor:
            cursor.execute(BACKENDS[self.vendor])
            found = [row[0] for row in cursor.fetchall()]
            if self.vendor == "mysql":
                for backend in found:
                    _kill(cursor, backend)
        return len(found)


def _kill(cursor: object, backend: int) -> None:
    try:
        cursor.execute(f"KILL {backend:d}")  # type: ignore[attr-defined]
    except DatabaseError as error:
        if error.args[0] != 1094:  # it has gone by itself
            raise
