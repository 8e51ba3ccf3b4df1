"""The agenda: which levels (lane, queue, priority) have pending tasks, and since when (docs/explanation/claiming.md).

It is read by a *full scan*, which finds every level: it reads a few index entries for each level and none of the
waiting tasks, but it also steps over each finished task that an old snapshot keeps the database from purging. Where
there are many of those, ``looks.py`` reads it in another way.

Which queues are paused is read together with it: nothing of these is claimed.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.lanes import BLOCKED, is_limited
from django_delayed_tasks.store.sql.tables import PAUSED_QUEUE, PENDING, TASK
from django_delayed_tasks.store.sql.transactions import decisively, in_one_statement
from django_delayed_tasks.vendors import vendor_of

LevelKey = tuple[str, str, int]
"""A level as (lane, queue, priority)."""


class Level(NamedTuple):
    """Tasks of one lane, queue and priority, with the earliest moment at which one of them may be claimed."""

    queue: str
    priority: int
    earliest: datetime
    lane: str = ""

    @property
    def key(self) -> LevelKey:
        """The key that tells the level from all others."""
        return self.lane, self.queue, self.priority


@dataclass(frozen=True, slots=True)
class Agenda:
    """The levels in use, as they were read shortly before ``now`` by the database's clock.

    ``is_complete``: whether a full scan has read it, so that no level and no task is missing. ``lanes`` has the levels
    of limited codes, without their blocked tasks. ``paused`` are the queues of which nothing is claimed, and ``asleep``
    has their levels. ``blocked`` has the levels of blocked tasks, of each key; only pages and statistics read these.
    """

    now: datetime
    levels: tuple[Level, ...]
    is_complete: bool = True
    lanes: tuple[Level, ...] = ()
    paused: frozenset[str] = frozenset()
    asleep: tuple[Level, ...] = ()
    blocked: tuple[Level, ...] = ()

    def due(self, ahead: timedelta = timedelta()) -> list[Level]:
        """Return the levels that have tasks that are due, or will be within ``ahead``, in no particular order."""
        until = self.now + ahead
        return [level for level in self.levels if level.earliest <= until]


def read_agenda(alias: str) -> Agenda:
    """Return the agenda of all tasks, by a full scan."""
    return in_one_statement(alias, partial(full_scan, dialect=dialect_of(connections[alias])))


def blocked_levels(alias: str) -> list[Level]:
    """Return every level of every lane that has blocked tasks, those of paused queues too."""
    dialect = dialect_of(connections[alias])
    # On a cluster the node must have seen what others have blocked.
    return decisively(alias, lambda cursor: _SCANS[vendor_of(dialect.connection)](cursor, dialect, _BLOCKED)[:-1])


def full_scan(cursor: CursorWrapper, dialect: Dialect) -> Agenda:
    """Read the agenda by a full scan."""
    *levels, (paused, _, now, _) = _SCANS[vendor_of(dialect.connection)](cursor, dialect, _UNBLOCKED)
    return agenda_of(now, levels, paused, is_complete=True)


def agenda_of(now: datetime, levels: Iterable[Level], paused: str | None, is_complete: bool) -> Agenda:
    """Return an agenda of these levels; ``paused`` is the JSON text of the paused queues."""
    queues: frozenset[str] = frozenset(json.loads(paused)) if paused else frozenset()
    unlimited: list[Level] = []
    lanes: list[Level] = []
    asleep: list[Level] = []
    for level in levels:
        (asleep if level.queue in queues else lanes if is_limited(level.lane) else unlimited).append(level)
    return Agenda(now, tuple(unlimited), is_complete, tuple(lanes), queues, tuple(asleep))


_AGGREGATES = {
    # The names are the keys of an object, coalesced with a type that may be long: MariaDB silently truncates an array
    # at group_concat_max_len, and a UNION truncates a value whose declared length is no more than that.
    "mysql": "COALESCE(JSON_OBJECTAGG(queue, 1), CAST(NULL AS CHAR(16000000)))",
    "postgresql": "json_agg(queue)::text",
    "sqlite": "json_group_array(queue)",
}
PAUSED = {vendor: f"(SELECT {names} FROM {PAUSED_QUEUE})" for vendor, names in _AGGREGATES.items()}
"""By vendor: a scalar subquery for the names of the paused queues as JSON text, to be read with something else."""


_UNBLOCKED: Final = f"< '{BLOCKED}'"
"""The condition for the lanes of the agenda."""
_BLOCKED: Final = f">= '{BLOCKED}'"
"""The condition for the lanes of keys."""


# Each full scan returns the current time last, as a level whose name is the JSON text of the paused queues: one
# statement reads everything where the database allows it, and it reads the clock when it has read everything else.


def _by_loose_scan(cursor: CursorWrapper, dialect: Dialect, lanes: str) -> list[Level]:
    # status <= PENDING, not =: for an equality MariaDB prefers a ref access that reads every matching entry.
    cursor.execute(
        f"SELECT status, lane, queue, priority, MIN(claim_at) FROM {TASK}"
        f" WHERE status <= {PENDING} AND lane {lanes} GROUP BY status, lane, queue, priority"
        f" UNION ALL SELECT -1, '', {PAUSED['mysql']}, 0, {clock.sql_latest(dialect.connection)}"
    )
    return [
        Level(queue, priority, dialect.to_datetime(moment), lane)
        for _, lane, queue, priority, moment in cursor.fetchall()
    ]


def _by_lateral_probes(cursor: CursorWrapper, dialect: Dialect, lanes: str) -> list[Level]:
    first = f"SELECT lane, queue, priority, claim_at FROM {TASK} WHERE status = {PENDING} AND lane {lanes}"
    order = "ORDER BY lane, queue, priority, claim_at LIMIT 1"
    cursor.execute(f"""
        WITH RECURSIVE level AS (
            ({first} {order})
            UNION ALL
            SELECT next.lane, next.queue, next.priority, next.claim_at FROM level, LATERAL (
                {first} AND (lane, queue, priority) > (level.lane, level.queue, level.priority) {order}) next
        )
        SELECT queue, priority, claim_at, lane FROM level
        UNION ALL SELECT {PAUSED["postgresql"]}, 0, {clock.sql_latest(dialect.connection)}, ''""")
    return [
        Level(queue, priority, dialect.to_datetime(moment), lane) for queue, priority, moment, lane in cursor.fetchall()
    ]


def _by_nested_probes(cursor: CursorWrapper, dialect: Dialect, lanes: str) -> list[Level]:
    # Three probes for the next level: SQLite reads a range of (queue, priority) from the start of the queue.
    first = f"SELECT n.id FROM {TASK} n WHERE n.status = {PENDING}"
    order = "ORDER BY n.lane, n.queue, n.priority, n.claim_at, n.id LIMIT 1"
    cursor.execute(f"""
        WITH RECURSIVE level(id) AS (
            SELECT ({first} AND n.lane {lanes} {order})
            UNION ALL
            SELECT coalesce(
                ({first} AND n.lane = t.lane AND n.queue = t.queue AND n.priority > t.priority {order}),
                ({first} AND n.lane = t.lane AND n.queue > t.queue {order}),
                ({first} AND n.lane > t.lane AND n.lane {lanes} {order}))
            FROM level CROSS JOIN {TASK} t ON t.id = level.id
        )
        SELECT t.queue, t.priority, t.claim_at, t.lane FROM level CROSS JOIN {TASK} t ON t.id = level.id
        UNION ALL SELECT {PAUSED["sqlite"]}, 0, NULL, NULL""")
    *rows, (paused, *_) = cursor.fetchall()
    levels = [Level(queue, priority, dialect.to_datetime(moment), lane) for queue, priority, moment, lane in rows]
    return [*levels, Level(paused, 0, clock.host_now())]


_SCANS = {"mysql": _by_loose_scan, "postgresql": _by_lateral_probes, "sqlite": _by_nested_probes}
