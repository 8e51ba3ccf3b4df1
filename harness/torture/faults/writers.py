"""Another process that writes to a SQLite file for long."""

import random
import sqlite3
from typing import TYPE_CHECKING

from django.db import connection

from harness.torture.faults.base import Fault, in_mix

if TYPE_CHECKING:
    from harness.torture.world import World


@in_mix
class LongWriter(Fault):
    """A transaction that has begun to write, and stays open for longer than every busy timeout."""

    kind = "long writer on the SQLite file (SQLITE_BUSY)"
    databases = frozenset({"sqlite"})
    weight = 2.0
    lasts = 3.0

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
