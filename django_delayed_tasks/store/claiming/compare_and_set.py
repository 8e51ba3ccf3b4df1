"""Claiming without locks: read candidates, update those whose version and status are unchanged, learn which were won.

The UPDATE waits for a candidate that a caller has changed in a transaction that is still open. If that takes too long,
locked rows are left out for a while.
"""

from typing import Final

from django.db import DatabaseError, connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.clock import monotonic
from django_delayed_tasks.store.claiming.affinity import Affinity
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, claimed
from django_delayed_tasks.store.claiming.request import ClaimRequest, Outpaced, taking, unclaimed
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import OF_CLAIM, Claim, fence, in_status
from django_delayed_tasks.store.sql.tables import PENDING, RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import (
    atomically,
    decisively,
    in_one_write,
    is_lock_timeout,
    is_transient_at_once,
)
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

LOCK_WAIT: Final = 1
"""Seconds that a claim waits for a locked row, on MariaDB and MySQL."""
AVOID: Final = 10.0
"""Seconds for which locked rows are left out after such a wait; meanwhile each claim costs a transaction."""

_avoiding_until: dict[str, float] = {}
"""By alias: the moment, in monotonic seconds, until which locked rows are left out."""


def claim(alias: str, request: ClaimRequest) -> list[ClaimedTask]:
    """Claim up to ``request.limit`` due tasks of one level: they are now RUNNING in this executor's name.

    Raises:
        Outpaced: there were due tasks, and other executors took all of them.
    """
    dialect = dialect_of(connections[alias])
    share = Affinity(alias, dialect, request)
    chosen = read_candidates(share)
    if not chosen:
        return []
    won = take(alias, dialect, request.executor, chosen)
    share.note(won_all=len(won) == len(chosen))
    if not won and not _is_avoiding(alias):
        raise Outpaced
    return won


def read_candidates(share: Affinity) -> list[ClaimedTask]:
    """Return the due tasks that this executor prefers, as they will be once they are claimed."""
    request = share.request
    tasks = [claimed(row, share.dialect, request.executor, newer=1) for row in share.read()]
    return [task for task in tasks if task.biz_code == request.only] if request.only else tasks


def take(alias: str, dialect: Dialect, executor: int, chosen: list[ClaimedTask]) -> list[ClaimedTask]:
    """Claim the tasks of ``chosen`` that have not been taken or changed since they were read; return those."""
    if _is_avoiding(alias):
        return _take_unlocked(alias, dialect, executor, chosen)
    try:
        won = _take(alias, dialect, executor, chosen)
    except DatabaseError as error:
        if not is_lock_timeout(error):
            raise
        logger.warning("another transaction has kept due tasks locked for a long time; others are claimed meanwhile")
        _avoiding_until[alias] = monotonic() + AVOID
        return _take_unlocked(alias, dialect, executor, chosen)
    if won == len(chosen):
        return chosen
    if not won:
        return []
    held = held_of(alias, [task.claim for task in chosen])
    return [task for task in chosen if task.claim in held]


def _take(alias: str, dialect: Dialect, executor: int, chosen: list[ClaimedTask]) -> int:
    update = update_of(dialect, executor, chosen)

    def write(cursor: CursorWrapper) -> int:
        dialect.wait_at_most(cursor, LOCK_WAIT)
        cursor.execute(update)
        return int(cursor.rowcount)

    return in_one_write(alias, write, is_transient_at_once)


def update_of(dialect: Dialect, executor: int, chosen: list[ClaimedTask]) -> str:
    """Return the UPDATE that claims those of the tasks that are as they were read."""
    # The version alone would suffice, except for a row whose status was changed by other means.
    rows = f"{in_status(PENDING)} AND {unclaimed(chosen)}"
    return f"{dialect.update(TASK)} SET {taking(dialect, executor)} WHERE {rows}"


def _take_unlocked(alias: str, dialect: Dialect, executor: int, chosen: list[ClaimedTask]) -> list[ClaimedTask]:
    """Take tasks like :func:`take`, but leave out rows that other transactions have locked."""

    def write(cursor: CursorWrapper) -> set[Claim]:
        cursor.execute(
            f"SELECT id, version FROM {dialect.by_key(TASK)} WHERE {in_status(PENDING)} AND {unclaimed(chosen)}"
            f"{dialect.skip_locked}"
        )
        free = {Claim(task_id, version + 1, executor) for task_id, version in cursor.fetchall()}
        won = [task for task in chosen if task.claim in free]
        if won:
            cursor.execute(f"{dialect.update(TASK)} SET {taking(dialect, executor)} WHERE {unclaimed(won)}")
        return free

    free = atomically(alias, write)
    return [task for task in chosen if task.claim in free]


def _is_avoiding(alias: str) -> bool:
    return monotonic() < _avoiding_until.get(alias, 0.0)


def held_of(alias: str, claims: list[Claim]) -> set[Claim]:
    """Return which of these claims are held."""

    def read(cursor: CursorWrapper) -> set[Claim]:
        cursor.execute(f"SELECT {OF_CLAIM} FROM {TASK} WHERE {in_status(RUNNING)} AND {fence(claims)}")
        return set(map(Claim._make, cursor.fetchall()))

    return decisively(alias, read)
