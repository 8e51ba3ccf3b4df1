"""Postponing: tasks at the head of a level that cannot run for a while are moved out of the way of those behind them.

Only ``claim_at`` moves; ``when`` stays what the caller asked for.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.claiming.claimed_task import COLUMNS, ClaimedTask, claimed
from django_delayed_tasks.store.claiming.request import ClaimRequest, candidates
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.fences import LAST_VERSION, Claim, fence, in_status
from django_delayed_tasks.store.sql.tables import PENDING, TASK
from django_delayed_tasks.store.sql.transactions import in_one_statement

HEAD: Final = 500
"""How many tasks at the head of a level are looked at."""
SPREAD: Final = 10
"""The number of moments over which postponed tasks are spread."""

Seconds = tuple[float, float]
"""An interval in seconds from now: (from, to)."""


class Due(NamedTuple):
    """A due task, in the version that was read."""

    claim: Claim
    biz_code: str


def pull_forward(alias: str, codes: Collection[str]) -> int:
    """Make postponed tasks of these codes whose time has come claimable now; return their number."""
    dialect = dialect_of(connections[alias])
    marks = ", ".join(["%s"] * len(codes))
    conditions = f"biz_code IN ({marks}) AND status = {PENDING} AND attempts = 0 AND trigger_text IS NULL"
    pulled = 0
    while codes:
        sql = (
            f"SELECT id, version FROM {TASK} WHERE {conditions} AND when_time <= {dialect.now}"
            f" AND claim_at > {dialect.later(timedelta(seconds=1))} ORDER BY claim_at LIMIT {HEAD:d}"
        )
        found = [(row[0], row[1]) for row in _rows(alias, sql, sorted(codes))]
        if not found:
            break
        postpone(alias, found, (0.0, 0.0))
        pulled += len(found)
    return pulled


def look_at_head(alias: str, request: ClaimRequest) -> list[Due]:
    """Return the first :data:`HEAD` due tasks of a level."""
    dialect = dialect_of(connections[alias])
    sql, parameters = candidates(
        dialect, replace(request, excluded=frozenset(), limit=HEAD), ("id", "version", "biz_code")
    )
    return [Due((row[0], row[1]), row[2]) for row in _rows(alias, sql, parameters)]


def details(alias: str, claims: Collection[Claim]) -> list[ClaimedTask]:
    """Return the tasks of these claims that have not changed since they were read."""
    dialect = dialect_of(connections[alias])
    rows = _rows(alias, f"SELECT {', '.join(COLUMNS)} FROM {TASK} WHERE {fence(claims)}", [])
    return [claimed(row, dialect, 0) for row in rows]


def _rows(alias: str, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    def read(cursor: CursorWrapper) -> list[tuple[Any, ...]]:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())

    return in_one_statement(alias, read)


def postpone(alias: str, claims: Sequence[Claim], delay: Seconds) -> None:
    """Postpone these tasks: they become claimable one after the other within ``delay`` (seconds from now).

    A task that has changed since it was read is left alone. ``when`` is kept, and no attempt is counted.
    """
    dialect = dialect_of(connections[alias])
    first, last = delay
    size = -(-len(claims) // SPREAD)
    moments = " ".join(
        f"WHEN id IN ({', '.join(str(task_id) for task_id, _ in claims[start : start + size])})"
        f" THEN {dialect.later(timedelta(seconds=first + (last - first) * (start + size) / len(claims)))}"
        for start in range(0, len(claims), size)
    )
    sql = (
        f"{dialect.update(TASK)} SET claim_at = CASE {moments} END, version = version + 1"
        f" WHERE {in_status(PENDING)} AND version < {LAST_VERSION} AND {fence(claims)}"
    )

    def write(cursor: CursorWrapper) -> None:
        cursor.execute(sql)

    in_one_statement(alias, write)
