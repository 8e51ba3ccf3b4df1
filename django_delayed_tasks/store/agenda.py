"""The agenda: which (queue, priority) levels have pending tasks, and since when (DESIGN §5, trap 1).

A GROUP BY over the claim index, or one probe per level, whichever reads only a few entries per level on the database;
none reads the waiting tasks themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.store.dialects import Dialect, dialect_of
from django_delayed_tasks.store.tables import PENDING, TASK
from django_delayed_tasks.store.transactions import in_one_statement


class Level(NamedTuple):
    """One (queue, priority) with the earliest moment at which one of its tasks may be claimed."""

    queue: str
    priority: int
    earliest: datetime


@dataclass(frozen=True, slots=True)
class Agenda:
    """Every level in use, at a moment of the database's clock."""

    now: datetime
    levels: tuple[Level, ...]

    def due(self) -> list[Level]:
        """Levels with something due: highest priority first, then the one that waits longest."""
        due = [level for level in self.levels if level.earliest <= self.now]
        return sorted(due, key=lambda level: (-level.priority, level.earliest))

    def seconds_until_next(self) -> float | None:
        """Until the earliest level is due: 0 if one is, None if nothing waits."""
        if not self.levels:
            return None
        earliest = min(level.earliest for level in self.levels)
        return max(0.0, (earliest - self.now).total_seconds())


def read_agenda(alias: str, watermark: datetime | None = None) -> Agenda:
    """The agenda of all tasks claimable from ``watermark`` on (None: of all)."""
    return in_one_statement(alias, lambda cursor: _read(cursor, dialect_of(connections[alias]), watermark))


def _read(cursor: CursorWrapper, dialect: Dialect, watermark: datetime | None) -> Agenda:
    floor = f"claim_at >= {dialect.moment_literal(watermark)}" if watermark else "1 = 1"
    now, *levels = _READERS[dialect.connection.vendor](cursor, dialect, floor)
    return Agenda(now.earliest, tuple(levels))


# Each reader gives the present moment first, as a level without a name: one statement where the database allows it.


def _by_loose_scan(cursor: CursorWrapper, dialect: Dialect, floor: str) -> Iterator[Level]:
    # status <= PENDING, not =: with an equality MariaDB prefers a ref access that reads every entry of it.
    cursor.execute(
        f"SELECT -1, '', 0, {dialect.now} UNION ALL"
        f" SELECT status, queue, priority, MIN(claim_at) FROM {TASK} WHERE status <= {PENDING} AND {floor}"
        f" GROUP BY status, queue, priority"
    )
    for _, queue, priority, earliest in cursor.fetchall():
        yield Level(queue, priority, dialect.to_datetime(earliest))


def _by_lateral_walk(cursor: CursorWrapper, dialect: Dialect, floor: str) -> Iterator[Level]:
    first = f"FROM {TASK} WHERE status = {PENDING}"
    cursor.execute(f"""
        WITH RECURSIVE level AS (
            (SELECT queue, priority {first} ORDER BY queue, priority LIMIT 1)
            UNION ALL
            SELECT next.queue, next.priority FROM level, LATERAL (
                SELECT queue, priority {first} AND (queue, priority) > (level.queue, level.priority)
                ORDER BY queue, priority LIMIT 1) next
        )
        SELECT '', 0, {dialect.now} UNION ALL
        SELECT level.queue, level.priority, earliest.claim_at FROM level, LATERAL (
            SELECT claim_at {first} AND queue = level.queue AND priority = level.priority AND {floor}
            ORDER BY claim_at LIMIT 1) earliest""")
    for queue, priority, earliest in cursor.fetchall():
        yield Level(queue, priority, dialect.to_datetime(earliest))


def _by_probes(cursor: CursorWrapper, dialect: Dialect, floor: str) -> Iterator[Level]:
    yield Level("", 0, clock.host_now())
    probe = f"SELECT queue, priority FROM {TASK} WHERE status = {PENDING}"
    cursor.execute(f"{probe} ORDER BY queue, priority LIMIT 1")
    level = cursor.fetchone()
    while level:
        queue, priority = level
        cursor.execute(
            f"SELECT claim_at FROM {TASK} WHERE status = {PENDING} AND queue = %s AND priority = %s AND {floor}"
            f" ORDER BY claim_at LIMIT 1",
            [queue, priority],
        )
        if found := cursor.fetchone():
            yield Level(queue, priority, dialect.to_datetime(found[0]))
        cursor.execute(f"{probe} AND queue = %s AND priority > %s ORDER BY priority LIMIT 1", [queue, priority])
        level = cursor.fetchone()
        if not level:
            cursor.execute(f"{probe} AND queue > %s ORDER BY queue, priority LIMIT 1", [queue])
            level = cursor.fetchone()


_READERS = {"mysql": _by_loose_scan, "postgresql": _by_lateral_walk, "sqlite": _by_probes}
