"""Looks: readings of the agenda that cost the same however many tasks have finished.

A full scan also steps over the index entries of finished tasks. A *look* at the known levels reads only ranges of the
claim index that hold none of them: those entries lie below the watermarks, and stay for as long as an old snapshot may
need them. SQLite has none, since it deletes in place.

InnoDB reads past the end of a range until it finds an entry that is not deleted. So on MariaDB and MySQL a look reads
neither levels that were empty nor the gaps between levels: the entries of finished tasks may come next.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.agenda import (
    PAUSED,
    Agenda,
    Level,
    LevelKey,
    agenda_of,
    read_agenda,
)
from django_delayed_tasks.store.claiming.request import rows_of
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.tables import PENDING, TASK
from django_delayed_tasks.store.sql.transactions import in_one_statement

MAX_KNOWN = 100
"""The number of levels up to which a look, with one probe for each level, is cheaper than a full scan."""


@dataclass(frozen=True, slots=True)
class KnownLevels:
    """The levels that earlier agendas have shown.

    ``watermarks`` has, for each level in use, a moment before which nothing claimable is expected; ``idle`` are the
    levels that had no task at ``since``, which is a little before the agenda that showed it was read.
    """

    watermarks: dict[LevelKey, datetime]
    idle: frozenset[LevelKey]
    since: datetime


@dataclass(frozen=True, slots=True)
class _LookResult:
    """The result of a look.

    ``earliest`` has the earliest claimable moment of each known level that has tasks, ``strangers`` some of the levels
    of plain tasks that were not known, and ``paused`` the paused queues as JSON text.
    """

    now: datetime
    earliest: dict[LevelKey, datetime]
    strangers: set[LevelKey]
    paused: str | None


def look(alias: str, known: KnownLevels) -> Agenda:
    """Return the agenda as far as a look at the known levels shows it; by a full scan where that costs no more.

    A look does not find tasks below their level's watermark nor, on MariaDB and MySQL, levels that were not in use
    before.
    """
    dialect = dialect_of(connections[alias])
    way = _WAYS.get(dialect.connection.vendor)
    levels = [*known.watermarks, *known.idle]
    if way is None or len(levels) > MAX_KNOWN or not any(lane == "" for lane, _, _ in levels):
        return read_agenda(alias)
    return in_one_statement(alias, partial(_look, dialect=dialect, known=known, way=way))


def _look(cursor: CursorWrapper, dialect: Dialect, known: KnownLevels, way: "_Way") -> Agenda:
    while True:
        found = way(cursor, dialect, known)
        strangers = found.strangers - known.watermarks.keys()
        if not strangers:
            levels = [
                Level(queue, priority, moment, lane) for (lane, queue, priority), moment in found.earliest.items()
            ]
            return agenda_of(found.now, levels, found.paused, is_complete=False)
        known = replace(known, watermarks=known.watermarks | dict.fromkeys(strangers, clock.EPOCH))


def _looked(rows: Sequence[Sequence[Any]], dialect: Dialect) -> _LookResult:
    """Return the result that these rows of (kind, lane, queue, priority, moment) stand for.

    1 is a known level, 2 a stranger; the current time comes last.
    """
    *levels, (_, _, paused, _, now) = rows
    return _LookResult(
        dialect.to_datetime(now),
        {
            (lane, queue, priority): dialect.to_datetime(moment)
            for kind, lane, queue, priority, moment in levels
            if kind == 1
        },
        {(lane, queue, priority) for kind, lane, queue, priority, _ in levels if kind == 2},
        paused,
    )


def _with_gaps(cursor: CursorWrapper, dialect: Dialect, known: KnownLevels) -> _LookResult:
    """Look on PostgreSQL: one index scan for each level and each gap. The server sorts the levels, by its collation.

    No row is compared with the pair (queue, priority): such a scan would not end where the priority does.
    """
    watermarks = {**dict.fromkeys(known.idle, known.since), **known.watermarks}
    plain = [(queue, priority, moment) for (lane, queue, priority), moment in watermarks.items() if not lane]
    others = [(*level, moment) for level, moment in watermarks.items() if level[0]]
    pending = f"FROM {TASK} t WHERE t.status = {PENDING} AND t.lane = ''"
    gaps = " UNION ALL ".join(
        f"SELECT 2, '', g.queue, g.priority, NULL FROM known k, LATERAL (SELECT t.queue, t.priority {pending} AND {gap}"
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
        SELECT 1, '', k.queue, k.priority, e.claim_at FROM known k, LATERAL (
            SELECT t.claim_at {pending} AND t.queue = k.queue AND t.priority = k.priority AND t.claim_at >= k.watermark
            ORDER BY t.claim_at LIMIT 1) e
        UNION ALL SELECT 1, k.lane, k.queue, k.priority, e.claim_at
        FROM unnest(%s::text[], %s::text[], %s::int[], %s::timestamptz[]) AS k(lane, queue, priority, watermark),
        LATERAL (
            SELECT t.claim_at FROM {TASK} t WHERE t.status = {PENDING} AND t.lane = k.lane AND t.queue = k.queue
            AND t.priority = k.priority AND t.claim_at >= k.watermark ORDER BY t.claim_at LIMIT 1) e
        UNION ALL {gaps}
        UNION ALL SELECT 0, '', {PAUSED["postgresql"]}, 0, {clock.sql_latest(dialect.connection)}""",
        [*_columns(plain, 3), *_columns(others, 4)],
    )
    return _looked(cursor.fetchall(), dialect)


def _columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    return [[row[column] for row in rows] for column in range(width)]


_ENDS_QUEUE = "k.next_queue IS DISTINCT FROM k.queue"
_GAPS = {
    "t.queue < k.queue": "k.last_queue IS NULL",
    "t.queue = k.queue AND t.priority < k.priority": "k.last_queue IS DISTINCT FROM k.queue",
    "t.queue = k.queue AND t.priority > k.priority AND t.priority < k.next_priority": "k.next_queue = k.queue",
    "t.queue = k.queue AND t.priority > k.priority": _ENDS_QUEUE,
    "t.queue > k.queue AND t.queue < k.next_queue": _ENDS_QUEUE,
    "t.queue > k.queue": "k.next_queue IS NULL",
}


def _in_use_only(cursor: CursorWrapper, dialect: Dialect, known: KnownLevels) -> _LookResult:
    """Look on MariaDB and MySQL: one index range for each level that had tasks; the next full scan finds the others."""
    # The version is selected, and multiplied by 0, so that the index does not cover the query: when MySQL's statistics
    # take a table of finished tasks for an empty one, it reads all of a covering index instead of a range of it.
    branches: list[str] = []
    parameters: list[Any] = []
    for (lane, queue, priority), watermark in known.watermarks.items():
        rows = rows_of(dialect, queue, priority, lane)
        order = ", ".join((*rows.order, "claim_at"))
        branches.append(
            f"(SELECT 1 + 0 * version, lane, queue, priority, claim_at FROM {rows.table} WHERE {rows.condition}"
            f" AND claim_at >= {dialect.moment_literal(watermark)} ORDER BY {order} LIMIT 1)"
        )
        parameters += rows.parameters
    branches.append(f"(SELECT 0, '', {PAUSED['mysql']}, 0, {clock.sql_latest(dialect.connection)})")
    cursor.execute(" UNION ALL ".join(branches), parameters)
    return _looked(cursor.fetchall(), dialect)


_Way = Callable[[CursorWrapper, Dialect, KnownLevels], _LookResult]
_WAYS: dict[str, _Way] = {"postgresql": _with_gaps, "mysql": _in_use_only}


def finds_other_levels(alias: str) -> bool:
    """Return whether a look also finds tasks of levels that had none when the agenda was last read."""
    return _WAYS.get(connections[alias].vendor) is not _in_use_only
