"""The agenda: which (queue, priority) levels have pending tasks, and since when (docs/explanation/claiming.md).

There are two ways to read it. A *full scan* finds every level; it reads a few index entries for each level and none of
the waiting tasks, but it also steps over each finished task that an old snapshot keeps the database from purging. A
*look* at the known levels costs the same however many tasks have finished: it reads only ranges of the claim index that
hold no dead entries of finished tasks. Those entries lie below the watermarks, and stay for as long as an old snapshot
may need them. SQLite has none: it deletes in place.

InnoDB reads past the end of a range until it finds an entry that is not deleted. So on MariaDB and MySQL a look reads
neither levels that were empty nor the gaps between levels: the entries of finished tasks may come next.

Both also read which queues are paused: nothing of these is claimed.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.request import rows_of
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.tables import PAUSED_QUEUE, PENDING, TASK
from django_delayed_tasks.store.sql.transactions import in_one_statement

MOST_KNOWN = 100
"""The number of levels up to which a look, with one probe for each level, is cheaper than a full scan."""


LevelKey = tuple[str, int]
"""A level as (queue, priority)."""


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


@dataclass(frozen=True, slots=True)
class KnownLevels:
    """What earlier agendas have shown.

    ``watermarks`` has, for each level in use, a moment before which nothing claimable is expected; ``idle`` are the
    levels that had no task at ``since``, which is a little before the agenda that showed it was read.
    """

    watermarks: dict[LevelKey, datetime]
    idle: frozenset[LevelKey]
    since: datetime


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a look found: the earliest claimable moment of each known level that has tasks, some of the levels that
    were not known (``strangers``), and the paused queues.
    """

    now: datetime
    earliest: dict[LevelKey, datetime]
    strangers: set[LevelKey]
    paused: frozenset[str]


def read_agenda(alias: str, known: KnownLevels | None = None) -> Agenda:
    """Return the agenda of all tasks; with ``known`` levels, one that is quicker to read but may be incomplete.

    It may then lack tasks below their level's watermark and, on MariaDB and MySQL, levels that were not in use before.
    """
    dialect = dialect_of(connections[alias])
    if known is None or not 0 < len(known.watermarks) + len(known.idle) <= MOST_KNOWN:
        return in_one_statement(alias, partial(_full_scan, dialect=dialect))
    return in_one_statement(alias, partial(_look, dialect=dialect, known=known))


def _full_scan(cursor: CursorWrapper, dialect: Dialect) -> Agenda:
    (paused, _, now), *levels = _FULL_SCANS[dialect.connection.vendor](cursor, dialect)
    names = _names_of(paused)
    return Agenda(now, tuple([level for level in levels if level.queue not in names]))


def _look(cursor: CursorWrapper, dialect: Dialect, known: KnownLevels) -> Agenda:
    look = _LOOKS.get(dialect.connection.vendor)
    if look is None:  # a full scan costs no more there
        return _full_scan(cursor, dialect)
    while True:
        found = look(cursor, dialect, known)
        strangers = found.strangers - known.watermarks.keys()
        if not strangers:
            return Agenda(found.now, _levels(found), is_complete=False)
        known = replace(known, watermarks=known.watermarks | dict.fromkeys(strangers, clock.EPOCH))


def _levels(found: _Looked) -> tuple[Level, ...]:
    levels = [Level(*key, earliest) for key, earliest in found.earliest.items()]
    return tuple([level for level in levels if level.queue not in found.paused])


_AGGREGATES = {
    # The names are the keys of an object, coalesced with a type that may be long: MariaDB silently truncates an array
    # at group_concat_max_len, and a UNION truncates a value whose declared length is no more than that.
    "mysql": "COALESCE(JSON_OBJECTAGG(queue, 1), CAST(NULL AS CHAR(16000000)))",
    "postgresql": "json_agg(queue)::text",
    "sqlite": "json_group_array(queue)",
}
_PAUSED = {vendor: f"(SELECT {names} FROM {PAUSED_QUEUE})" for vendor, names in _AGGREGATES.items()}
"""By vendor: a scalar subquery for the names of the paused queues as JSON text, to be read with something else."""


# Each full scan returns the current time first, as a level whose name is the JSON text of the paused queues: one
# statement reads everything where the database allows it.


def _by_loose_scan(cursor: CursorWrapper, dialect: Dialect) -> list[Level]:
    # status <= PENDING, not =: for an equality MariaDB prefers a ref access that reads every matching entry.
    cursor.execute(
        f"SELECT -1, {_PAUSED['mysql']}, 0, {dialect.now} UNION ALL"
        f" SELECT status, queue, priority, MIN(claim_at) FROM {TASK} WHERE status <= {PENDING}"
        f" GROUP BY status, queue, priority"
    )
    return [Level(queue, priority, dialect.to_datetime(moment)) for _, queue, priority, moment in cursor.fetchall()]


def _by_lateral_probes(cursor: CursorWrapper, dialect: Dialect) -> list[Level]:
    first = f"SELECT queue, priority, claim_at FROM {TASK} WHERE status = {PENDING}"
    order = "ORDER BY queue, priority, claim_at LIMIT 1"
    cursor.execute(f"""
        WITH RECURSIVE level AS (
            ({first} {order})
            UNION ALL
            SELECT next.queue, next.priority, next.claim_at FROM level, LATERAL (
                {first} AND (queue, priority) > (level.queue, level.priority) {order}) next
        )
        SELECT {_PAUSED["postgresql"]}, 0, {clock.sql_latest(dialect.connection)}
        UNION ALL SELECT queue, priority, claim_at FROM level""")
    return [Level(queue, priority, dialect.to_datetime(moment)) for queue, priority, moment in cursor.fetchall()]


def _by_nested_probes(cursor: CursorWrapper, dialect: Dialect) -> list[Level]:
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
        SELECT {_PAUSED["sqlite"]}, 0, NULL
        UNION ALL SELECT t.queue, t.priority, t.claim_at FROM level CROSS JOIN {TASK} t ON t.id = level.id""")
    (paused, _, _), *rows = cursor.fetchall()
    levels = [Level(queue, priority, dialect.to_datetime(moment)) for queue, priority, moment in rows]
    return [Level(paused, 0, clock.host_now()), *levels]


_FULL_SCANS = {"mysql": _by_loose_scan, "postgresql": _by_lateral_probes, "sqlite": _by_nested_probes}


def _looked(rows: Sequence[Sequence[Any]], dialect: Dialect) -> _Looked:
    """Return what these rows of (kind, queue, priority, moment) say: kind 0 is the current time and comes first, 1 is a
    known level, 2 a stranger.
    """
    (_, paused, _, now), *levels = rows
    return _Looked(
        dialect.to_datetime(now),
        {(queue, priority): dialect.to_datetime(moment) for kind, queue, priority, moment in levels if kind == 1},
        {(queue, priority) for kind, queue, priority, _ in levels if kind == 2},
        _names_of(paused),
    )


def _with_gaps(cursor: CursorWrapper, dialect: Dialect, known: KnownLevels) -> _Looked:
    """Look on PostgreSQL: one index scan for each level and each gap. The server sorts the levels, by its collation.

    No row is compared with the pair (queue, priority): such a scan would not end where the priority does.
    """
    watermarks = {**dict.fromkeys(known.idle, known.since), **known.watermarks}
    pending = f"FROM {TASK} t WHERE t.status = {PENDING}"
    gaps = " UNION ALL ".join(
        f"SELECT 2, g.queue, g.priority, NULL FROM known k, LATERAL (SELECT t.queue, t.priority {pending} AND {gap}"
        f" ORDER BY t.queue, t.priority LIMIT 1) g WHERE {which}"
        for gap, which in _GAPS.items()
    )
    cursor.execute(
        f"""
        WITH known AS (
            SELECT queue, priority, watermark, lag(queue) OVER w AS last_queue, lead(queue) OVER w AS next_queue,
                lead(priority) OVER w AS next_priority
            FROM unnest(%s::text[], %s::int[], %s::timestamptz[]) AS v(queue, priority, watermark)
            WINDOW w AS (ORDER BY queue, priority))
        SELECT 0, {_PAUSED["postgresql"]}, 0, {clock.sql_latest(dialect.connection)}
        UNION ALL SELECT 1, k.queue, k.priority, e.claim_at FROM known k, LATERAL (
            SELECT t.claim_at {pending} AND t.queue = k.queue AND t.priority = k.priority AND t.claim_at >= k.watermark
            ORDER BY t.claim_at LIMIT 1) e
        UNION ALL {gaps}""",
        [list(column) for column in zip(*((*key, watermark) for key, watermark in watermarks.items()), strict=True)],
    )
    return _looked(cursor.fetchall(), dialect)


_ENDS_QUEUE = "k.next_queue IS DISTINCT FROM k.queue"
_GAPS = {
    "t.queue < k.queue": "k.last_queue IS NULL",
    "t.queue = k.queue AND t.priority < k.priority": "k.last_queue IS DISTINCT FROM k.queue",
    "t.queue = k.queue AND t.priority > k.priority AND t.priority < k.next_priority": "k.next_queue = k.queue",
    "t.queue = k.queue AND t.priority > k.priority": _ENDS_QUEUE,
    "t.queue > k.queue AND t.queue < k.next_queue": _ENDS_QUEUE,
    "t.queue > k.queue": "k.next_queue IS NULL",
}


def _in_use_only(cursor: CursorWrapper, dialect: Dialect, known: KnownLevels) -> _Looked:
    """Look on MariaDB and MySQL: one index range for each level that had tasks; the next full scan finds the others."""
    # The version is selected, and multiplied by 0, so that the index does not cover the query: when MySQL's statistics
    # take a table of finished tasks for an empty one, it reads all of a covering index instead of a range of it.
    branches = [f"(SELECT 0, {_PAUSED['mysql']}, 0, {dialect.now})"]
    parameters: list[Any] = []
    for (queue, priority), watermark in known.watermarks.items():
        rows = rows_of(dialect, queue, priority)
        order = ", ".join((*rows.order, "claim_at"))
        branches.append(
            f"(SELECT 1 + 0 * version, queue, priority, claim_at FROM {rows.table} WHERE {rows.condition}"
            f" AND claim_at >= {dialect.moment_literal(watermark)} ORDER BY {order} LIMIT 1)"
        )
        parameters += rows.parameters
    cursor.execute(" UNION ALL ".join(branches), parameters)
    return _looked(cursor.fetchall(), dialect)


_Look = Callable[[CursorWrapper, Dialect, KnownLevels], _Looked]
_LOOKS: dict[str, _Look] = {"postgresql": _with_gaps, "mysql": _in_use_only}


def _names_of(text: str | None) -> frozenset[str]:
    """Return the names that were read as JSON text."""
    return frozenset(json.loads(text)) if text else frozenset()
