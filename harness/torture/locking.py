"""How long a write waits while something else happens; and a lock that makes it wait, for the proof."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from django.db import DatabaseError, connection, connections, transaction

from harness.torture.cluster import FAST
from harness.torture.ledger import PREFIX

MOST: float = 2 * FAST["LEASE"]
"""Seconds that nothing may stand still during an upgrade: two leases, since the claims of a dead executor wait one."""
TABLES = (f"{PREFIX}task", f"{PREFIX}taskrun")
LOCK = {"mysql": f"LOCK TABLES {TABLES[0]} WRITE", "postgresql": f"LOCK TABLE {TABLES[0]} IN ACCESS EXCLUSIVE MODE"}


class Writer:
    """Writes one row of each large table over and over, in a thread, on a connection of its own."""

    def __init__(self) -> None:
        self.longest = 0.0
        """Seconds that the longest write took."""
        self._has_begun = Event()
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)

    @contextmanager
    def at_work(self) -> Iterator["Writer"]:
        """Write before the block, in it and until its end; then the last write has ended."""
        self._thread.start()
        self._has_begun.wait()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join()

    def _run(self) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(" UNION ALL ".join(f"SELECT MAX(id) FROM {table}" for table in TABLES))
                rows = dict(zip(TABLES, (row[0] for row in cursor.fetchall()), strict=True))
            while not self._stop.is_set():
                for table, row in rows.items():
                    self._write(table, row)
                self._has_begun.set()
        finally:
            self._has_begun.set()
            connections.close_all()

    def _write(self, table: str, row: int) -> None:
        begun = time.monotonic()
        while not _is_written(table, row):
            pass
        self.longest = max(self.longest, time.monotonic() - begun)


def _is_written(table: str, row: int) -> bool:
    """Write it as any transaction does; what the database refuses, as SQLite does after a while, is tried again."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET version = version + 1 WHERE id = %s", [row])
        return True
    except DatabaseError:
        connection.close()
        return False


def hold(seconds: float = MOST + 1.0) -> None:
    """Keep the tasks locked for so long."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK.get(connection.vendor, f"DELETE FROM {TABLES[0]} WHERE id = 0"))
        time.sleep(seconds)
        if connection.vendor == "mysql":
            cursor.execute("UNLOCK TABLES")
