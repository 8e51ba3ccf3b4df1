"""The agenda: which (queue, priority) levels have pending tasks, and since when (docs/explanation/claiming.md).

There are two ways to read it. A *full scan* finds every level; it reads a few index entries for each level and none of
the waiting tasks, but it also steps over each finished task that an old snapshot keeps the database from purging. A
*look* at the known levels does not step over finished tasks: see ``levels``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.levels import KnownLevels, Looked, look_of
from django_delayed_tasks.store.claiming.paused_queues import names_of, paused_names
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.tables import PENDING, TASK
from django_delayed_tasks.store.sql.transactions import in_one_statement

MOST_KNOWN = 100
"""The number of levels up to which a look, with one probe for each level, is cheaper than a full scan."""


class Level(NamedTuple):
    """A pair of queue and priority, with the earliest moment at which one of its tasks may be claimed."""

    queue: str
    priority: int
    earliest: datetime


@dataclass(frozen=True, slots=True)
class Agenda:
    """The levels in use, as they were read at ``now`` by the database's clock.

    ``is_complete``: whether a full scan has read it, so that no level and no task is missing.
    """

    now: datetime
    levels: tuple[Level, ...]
    is_complete: bool = True

    def due(self, ahead: timedelta = timedelta()) -> list[Level]:
        """Return the levels that have due tasks: highest priority first, then the one that has waited longest.

        The levels whose first task is due only within ``ahead`` follow, in the same order.
        """
        due = [level for level in self.levels if level.earliest <= self.now + ahead]
        return sorted(due, key=lambda level: (level.earliest > self.now, -level.priority, level.earliest))

    def seconds_until_next(self) -> float | None:
        """Return the seconds until the earliest level is due: 0 if one is due already, None if no task waits."""
        if not self.levels:
            return None
        earliest = min(level.earliest for level in self.levels)
        return max(0.0, (earliest - self.now).total_seconds())


def read_agenda(alias: str, known: KnownLevels | None = None) -> Agenda:
    """Return the agenda of all tasks; with ``known`` levels, one that is quicker to read but may be incomplete.

    It may then lack tasks below their level's watermark and, on MariaDB and MySQL, levels that were not in use before.
    """
    if known is None or not 0 < len(known.floors) + len(known.idle) <= MOST_KNOWN:
        return in_one_statement(alias, lambda cursor: _walk(cursor, dialect_of(connections[alias])))
    return in_one_statement(alias, lambda cursor: _look(cursor, dialect_of(connections[alias]), known))


def _walk(cursor: CursorWrapper, dialect: Dialect) -> Agenda:
    now, *levels = _WALKS[dialect.connection.vendor](cursor, dialect)
    paused = names_of(now.queue)
    return Agenda(now.earliest, tuple(level for level in levels if level.queue not in paused))


def _look(cursor: CursorWrapper, dialect: Dialect, known: KnownLevels) -> Agenda:
    look = look_of(dialect)
    if look is None:
        return _walk(cursor, dialect)
    while True:
        found = look(cursor, dialect, known)
        strangers = found.strangers - known.floors.keys()
        if not strangers:
            return Agenda(found.now, _levels(found), is_complete=False)
        known = replace(known, floors=known.floors | dict.fromkeys(strangers, clock.EPOCH))


def _levels(found: Looked) -> tuple[Level, ...]:
    levels = (Level(queue, priority, earliest) for (queue, priority), earliest in found.earliest.items())
    return tuple(level for level in levels if level.queue not in found.paused)


# Each full scan yields the current time first, as a level whose name is the JSON text of the paused queues, so that one
# statement reads everything where the database allows it.


def _by_loose_scan(cursor: CursorWrapper, dialect: Dialect) -> Iterator[Level]:
    # status <= PENDING, not =: for an equality MariaDB prefers a ref access that reads every matching entry.
    cursor.execute(
        f"SELECT -1, {paused_names(dialect)}, 0, {dialect.now} UNION ALL"
        f" SELECT status, queue, priority, MIN(claim_at) FROM {TASK} WHERE status <= {PENDING}"
        f" GROUP BY status, queue, priority"
    )
    for _, queue, priority, earliest in cursor.fetchall():
        yield Level(queue, priority, dialect.to_datetime(earliest))


def _by_lateral_walk(cursor: CursorWrapper, dialect: Dialect) -> Iterator[Level]:
    first = f"SELECT queue, priority, claim_at FROM {TASK} WHERE status = {PENDING}"
    order = "ORDER BY queue, priority, claim_at LIMIT 1"
    cursor.execute(f"""
        WITH RECURSIVE level AS (
            ({first} {order})
            UNION ALL
            SELECT next.queue, next.priority, next.claim_at FROM level, LATERAL (
                {first} AND (queue, priority) > (level.queue, level.priority) {order}) next
        )
        SELECT {paused_names(dialect)}, 0, {clock.sql_latest(dialect.connection)}
        UNION ALL SELECT queue, priority, claim_at FROM level""")
    for queue, priority, earliest in cursor.fetchall():
        yield Level(queue, priority, dialect.to_datetime(earliest))


def _by_nested_probes(cursor: CursorWrapper, dialect: Dialect) -> Iterator[Level]:
    # Two probes for the next level: SQLite reads a range of (queue, priority) from the start of the queue.
    first = f"SELECT n.id FROM {TASK} n WHERE n.status = {PENDING}"
    cursor.execute(f"""
        WITH RECURSIVE level(id) AS (
            SELECT ({first} ORDER BY n.queue, n.priority, n.claim_at, n.id LIMIT 1)
            UNION ALL
            SELECT coalesce(
                ({first} AND n.queue = t.queue AND n.priority > t.priority
                 ORDER BY n.priority, n.claim_at, n.id LIMIT 1),
                ({first} AND n.queue > t.queue ORDER BY n.queue, n.priority, n.claim_at, n.id LIMIT 1))
            FROM level CROSS JOIN {TASK} t ON t.id = level.id
        )
        SELECT {paused_names(dialect)}, 0, NULL
        UNION ALL SELECT t.queue, t.priority, t.claim_at FROM level CROSS JOIN {TASK} t ON t.id = level.id""")
    (paused, _, _), *rows = cursor.fetchall()
    yield Level(paused, 0, clock.host_now())
    for queue, priority, earliest in rows:
        yield Level(queue, priority, dialect.to_datetime(earliest))


_WALKS = {"mysql": _by_loose_scan, "postgresql": _by_lateral_walk, "sqlite": _by_nested_probes}
