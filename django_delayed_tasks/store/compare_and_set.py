"""Claiming without locks: read candidates, then one UPDATE that repeats version and status, then learn what was won."""

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.claiming import ClaimRequest, taking
from django_delayed_tasks.store.claims import ClaimedTask, claimed
from django_delayed_tasks.store.dialects import Dialect, dialect_of
from django_delayed_tasks.store.fences import Claim, fence, in_status
from django_delayed_tasks.store.sharing import Share
from django_delayed_tasks.store.tables import PENDING, RUNNING, TASK
from django_delayed_tasks.store.transactions import decisively, in_one_statement


def claim(alias: str, request: ClaimRequest) -> list[ClaimedTask]:
    """Up to ``request.limit`` due tasks of one level, now RUNNING in this executor's name."""
    dialect = dialect_of(connections[alias])
    share = Share(alias, dialect, request)
    found = [claimed(row, dialect, request.executor, newer=1) for row in share.read()]
    chosen = [task for task in found if request.asks_for(task.biz_code)]
    if not chosen:
        return []
    won = take(alias, dialect, request.executor, chosen)
    share.note(len(chosen), len(won))
    return won


def read_candidates(alias: str, dialect: Dialect, request: ClaimRequest) -> list[ClaimedTask]:
    """Candidates as they will be once claimed."""
    return [claimed(row, dialect, request.executor, newer=1) for row in Share(alias, dialect, request).read()]


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
