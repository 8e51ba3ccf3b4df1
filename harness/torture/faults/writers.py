"""Others keep executors from writing for long: a process that writes to a SQLite file, a backup of a server."""

import contextlib
import random
import sqlite3
from typing import TYPE_CHECKING

from django.db import DatabaseError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from harness.torture.faults.base import Fault, in_mix

if TYPE_CHECKING:
    from harness.torture.world import World


@in_mix
class LongWriter(Fault):
    """A transaction that has begun to write, and stays open for longer than every busy timeout."""

    kind = "long writer on the SQLite file (SQLITE_BUSY)"
    databases = frozenset({"sqlite"})
    weight = 2.0
    lasts = 5.0

    def __init__(self) -> None:
        self._writer: sqlite3.Connection | None = None

    def inject(self, world: "World", chance: random.Random) -> bool:
        self.heal(world)
        self._writer = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None, timeout=30)
        self._writer.execute("BEGIN IMMEDIATE")
        return True

    def heal(self, world: "World") -> None:
        writer, self._writer = self._writer, None
        if writer:
            writer.rollback()
            writer.close()


LOCKS = {
    "mysql": ("SET SESSION lock_wait_timeout = 3", "FLUSH TABLES WITH READ LOCK"),
    "postgresql": (
        "SET lock_timeout = '3s'",
        "BEGIN",
        "LOCK TABLE django_delayed_tasks_task, django_delayed_tasks_taskrun, django_delayed_tasks_executor"
        " IN SHARE MODE",
    ),
}
"""The statements with which nothing more can be written, or which give up because another transaction is in the way."""


@in_mix
class NoWrites(Fault):
    """A backup: all can read, and none can write, for longer than a lease."""

    kind = "pause of writes (a lock on the tables)"
    databases = frozenset({"mariadb", "mysql", "postgres"})
    weight = 1.5
    lasts = 5.0

    def __init__(self) -> None:
        self._holder: BaseDatabaseWrapper | None = None

    def inject(self, world: "World", chance: random.Random) -> bool:
        self.heal(world)
        self._holder = connections.create_connection("default")
        try:
            with self._holder.cursor() as cursor:
                for statement in LOCKS[connection.vendor]:
                    cursor.execute(statement)
        except DatabaseError:
            self.heal(world)
            return False
        return True

    def heal(self, world: "World") -> None:
        holder, self._holder = self._holder, None
        if holder:
            with contextlib.suppress(DatabaseError):  # another fault may have ended it
                holder.close()
