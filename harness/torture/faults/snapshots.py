"""An old snapshot of another client: the database cannot remove the rows that have finished since."""

import random
from typing import TYPE_CHECKING

from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from harness.torture.faults.base import Fault, in_mix

if TYPE_CHECKING:
    from harness.torture.world import World

BEGIN = {
    "mysql": ("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"),
    "postgresql": ("BEGIN ISOLATION LEVEL REPEATABLE READ",),
    "sqlite": ("BEGIN DEFERRED",),
}


@in_mix
class OldSnapshot(Fault):
    """A report that takes long, a backup, a forgotten session: it reads the tasks once, and stays open."""

    kind = "old snapshot held open"
    weight = 0.5
    lasts = 8.0

    def __init__(self) -> None:
        self._holder: BaseDatabaseWrapper | None = None

    def inject(self, world: "World", chance: random.Random) -> bool:
        self.heal(world)
        self._holder = connections.create_connection("default")
        with self._holder.cursor() as cursor:
            for statement in (*BEGIN[connection.vendor], "SELECT COUNT(*) FROM django_delayed_tasks_task"):
                cursor.execute(statement)
            cursor.fetchall()
        return True

    def heal(self, world: "World") -> None:
        holder, self._holder = self._holder, None
        if holder:
            holder.close()
