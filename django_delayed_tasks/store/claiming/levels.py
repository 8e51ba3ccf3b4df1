"""A look at the known levels, which costs the same however many tasks have finished.

It reads only ranges of the claim index that hold no dead entries of finished tasks. Those entries lie below the
watermarks, and stay for as long as an old snapshot may need them. SQLite has none: it deletes in place.

InnoDB reads past the end of a range until it finds an entry that is not deleted. So on MariaDB and MySQL a look reads
neither levels that were empty nor the gaps between levels: the entries of finished tasks may come next.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.paused_queues import names_of, paused_names
from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.tables import PENDING, TASK

LevelKey = tuple[str, int]
"""A level as (queue, priority)."""


@dataclass(frozen=True, slots=True)
class KnownLevels:
    """What earlier agendas have shown.

    ``floors`` has the watermark of each level in use, a moment before which nothing claimable is expected; ``idle`` are
    the levels that had no task at ``since``, which is a little before the agenda that showed it was read.
    """

    floors: dict[LevelKey, datetime]
    idle: frozenset[LevelKey]
    since: datetime


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look found: the earliest claimable moment of each known level that has tasks, some of the levels that
    were not known (``strangers``), and the paused queues.
    """

    now: datetime
    earliest: dict[LevelKey, datetime]
    strangers: set[LevelKey]
    paused: frozenset[str]


Look = Callable[[CursorWrapper, Dialect, KnownLevels], Looked]


def look_of(dialect: Dialect) -> Look | None:
    """Return the function that looks at levels on this database; None where a full scan costs no more."""
    return _LOOKS.get(dialect.connection.vendor)


class LevelRows(NamedTuple):
    """SQL fragments that find the pending rows of one level, to be ordered by ``order`` and then ``claim_at``."""

    table: str
    condition: str
    parameters: list[Any]
    order: tuple[str, ...]


def rows_of(dialect: Dialect, queue: str, priority: int) -> LevelRows:
    """Return the fragments that read the pending rows of one level through the claim index, from the watermark on.

    MariaDB prefers equalities to a range of the same index even where the range is narrower: it would read the level
    from its start, whatever the watermark. So the condition has no equality there, and the order is the index's own.
    """
    if dialect.connection.vendor != "mysql":
        return LevelRows(TASK, f"status = {PENDING} AND queue = %s AND priority = %s", [queue, priority], ())
    columns = {"status": PENDING, "queue": queue, "priority": priority}
    return LevelRows(
        f"{TASK} FORCE INDEX (ddt_task_claim)",
        " AND ".join(f"{column} >= %s AND {column} <= %s" for column in columns),
        [value for value in columns.values() for _ in range(2)],
        tuple(columns),
    )


def _looked(rows: Sequence[Sequence[Any]], dialect: Dialect) -> Looked:
    """Return what these rows of (kind, queue, priority, moment) say: kind 0 is the current time and comes first, 1 is a
    known level, 2 a stranger.
    """
    (_, paused, _, now), *levels = rows
    return Looked(
        dialect.to_datetime(now),
        {(queue, priority): dialect.to_datetime(moment) for kind, queue, priority, moment in levels if kind == 1},
        {(queue, priority) for kind, queue, priority, _ in levels if kind == 2},
        names_of(paused),
    )


def _with_gaps(cursor: CursorWrapper, dialect: Dialect, known: KnownLevels) -> Looked:
    """Look on PostgreSQL: one index scan for each level and each gap. The server sorts the levels, by its collation.

    No row is compared with the pair (queue, priority): such a scan would not end where the priority does.
    """
    floors = {**dict.fromkeys(known.idle, known.since), **known.floors}
    pending = f"FROM {TASK} t WHERE t.status = {PENDING}"
    gaps = " UNION ALL ".join(
        f"SELECT 2, g.queue, g.priority, NULL FROM known k, LATERAL (SELECT t.queue, t.priority {pending} AND {gap}"
        f" ORDER BY t.queue, t.priority LIMIT 1) g WHERE {which}"
        for gap, which in _GAPS.items()
    )
    cursor.execute(
        f"""
        WITH known AS (
            SELECT queue, priority, floor, lag(queue) OVER w AS last_queue, lead(queue) OVER w AS next_queue,
                lead(priority) OVER w AS next_priority
            FROM unnest(%s::text[], %s::int[], %s::timestamptz[]) AS v(queue, priority, floor)
            WINDOW w AS (ORDER BY queue, priority))
        SELECT 0, {paused_names(dialect)}, 0, {clock.sql_latest(dialect.connection)}
        UNION ALL SELECT 1, k.queue, k.priority, e.claim_at FROM known k, LATERAL (
            SELECT t.claim_at {pending} AND t.queue = k.queue AND t.priority = k.priority AND t.claim_at >= k.floor
            ORDER BY t.claim_at LIMIT 1) e
        UNION ALL {gaps}""",
        [list(column) for column in zip(*((*key, floor) for key, floor in floors.items()), strict=True)],
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


def _in_use_only(cursor: CursorWrapper, dialect: Dialect, known: KnownLevels) -> Looked:
    """Look on MariaDB and MySQL: one index range for each level that had tasks; the next full scan finds the others."""
    # The version is selected, and multiplied by 0, so that the index does not cover the query: when MySQL's statistics
    # take a table of finished tasks for an empty one, it reads all of a covering index instead of a range of it.
    branches = [f"(SELECT 0, {paused_names(dialect)}, 0, {dialect.now})"]
    parameters: list[Any] = []
    for (queue, priority), floor in known.floors.items():
        rows = rows_of(dialect, queue, priority)
        branches.append(
            f"(SELECT 1 + 0 * version, queue, priority, claim_at FROM {rows.table} WHERE {rows.condition}"
            f" AND claim_at >= {dialect.moment_literal(floor)} ORDER BY {', '.join((*rows.order, 'claim_at'))} LIMIT 1)"
        )
        parameters += rows.parameters
    cursor.execute(" UNION ALL ".join(branches), parameters)
    return _looked(cursor.fetchall(), dialect)


_LOOKS: dict[str, Look] = {"postgresql": _with_gaps, "mysql": _in_use_only}
