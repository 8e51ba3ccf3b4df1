"""Claiming without locks: read candidates, then one UPDATE that repeats version and status, then learn what was won."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.claiming import OTHER, ClaimRequest, candidates, share, taking
from django_delayed_tasks.store.claims import COLUMNS, ClaimedTask, claimed
from django_delayed_tasks.store.dialects import Dialect, dialect_of
from django_delayed_tasks.store.fences import Claim, fence, in_status
from django_delayed_tasks.store.tables import PENDING, RUNNING, TASK
from django_delayed_tasks.store.transactions import decisively, in_one_statement

Rows = list[tuple[Any, ...]]
_CLAIM_AT = COLUMNS.index("claim_at")

MOST_OF_OTHERS, MOST_OF_ANYBODYS = 16, 2
"""Tasks that are taken at once of what is best left to others; and when that is in others' way, too."""
LEFT_BEHIND = timedelta(seconds=10)
"""How much longer than one's own tasks may those of others wait; then whoever can takes them."""


def claim(alias: str, request: ClaimRequest) -> list[ClaimedTask]:
    """Up to ``request.limit`` due tasks of one level, now RUNNING in this executor's name."""
    dialect = dialect_of(connections[alias])
    chosen = read_candidates(alias, dialect, request)
    return take(alias, dialect, request.executor, chosen) if chosen else []


def read_candidates(alias: str, dialect: Dialect, request: ClaimRequest) -> list[ClaimedTask]:
    """Candidates as they will be once claimed. Several executors keep off each other's rows by affinity."""
    rows = _shared(alias, dialect, request) if request.executors > 1 else _read(alias, *candidates(dialect, request))
    return [claimed(row, dialect, request.executor, newer=1) for row in rows]


def _shared(alias: str, dialect: Dialect, request: ClaimRequest) -> Rows:
    """One's own share; when there is none, or another's is left behind, some of what is best left to others, who may be
    busy for long.

    Those take theirs from the one end and this from the other, unless it is left behind; several that do so have
    shares of it again.
    """
    mine = _read(alias, *candidates(dialect, request, share=share(request)))
    others = replace(request, limit=min(request.limit, MOST_OF_OTHERS))
    if mine and _leaves_behind(dialect.to_datetime(mine[0][_CLAIM_AT]), request.floor):
        return _read(alias, *candidates(dialect, others, share=share(request, OTHER))) or mine
    if not mine:
        latest = _read(alias, *candidates(dialect, others, share=share(request, OTHER), direction="DESC"))
        anybodys = replace(others, limit=min(others.limit, MOST_OF_ANYBODYS))
        return latest[::-1] or _read(alias, *candidates(dialect, anybodys))
    return mine


def _leaves_behind(mine: datetime, floor: datetime | None) -> bool:
    return floor is not None and mine - floor > LEFT_BEHIND


def _read(alias: str, sql: str, parameters: list[Any]) -> Rows:
    def read(cursor: CursorWrapper) -> Rows:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())

    return in_one_statement(alias, read)


def take(alias: str, dialect: Dialect, executor: int, chosen: list[ClaimedTask]) -> list[ClaimedTask]:
    """Those of ``chosen`` that nobody else took or changed since they were read."""
    before = fence((task.id, task.version - 1) for task in chosen)
    update = f"{dialect.update(TASK)} SET {taking(dialect, executor)} WHERE {in_status(PENDING)} AND {before}"

    def write(cursor: CursorWrapper) -> int:
        cursor.execute(update)
        return int(cursor.rowcount)

    won = in_one_statement(alias, write)
    if won == len(chosen):
        return chosen
    if not won:
        return []
    held = held_of(alias, executor, [task.claim for task in chosen])
    return [task for task in chosen if task.claim in held]


def held_of(alias: str, executor: int, claims: list[Claim]) -> set[Claim]:
    """Which of these claims this executor holds."""

    def read(cursor: CursorWrapper) -> set[Claim]:
        cursor.execute(
            f"SELECT id, version FROM {TASK} WHERE {in_status(RUNNING)} AND executor = {executor:d} AND {fence(claims)}"
        )
        return {(task_id, version) for task_id, version in cursor.fetchall()}

    return decisively(alias, read)
