"""Reaping: RUNNING tasks whose executor is not alive become PENDING again, or FAILED after too many rescues.

Whoever claims late, after it was declared dead, is found all the same: what counts is the row, not the time.
"""

import random
from datetime import timedelta

from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store.executors import declare_expired_dead
from django_delayed_tasks.store.fences import Claim
from django_delayed_tasks.store.settling import Settlement, settle_lockable, settle_locked
from django_delayed_tasks.store.tables import EXECUTOR, RUNNING, TASK
from django_delayed_tasks.store.transactions import atomically, decisively, in_one_statement

SPREAD = 5.0
"""Seconds, for each rescue before, over which rescued tasks are spread."""


def reap(alias: str, max_rescues: int, limit: int = 500) -> dict[Claim, Then]:
    """One pass over orphaned tasks; what became of those that were taken. A row that somebody has locked is left to a
    later pass: a caller's long transaction must not keep the others waiting.
    """
    in_one_statement(alias, lambda cursor: declare_expired_dead(cursor, alias))
    orphans = in_one_statement(alias, lambda cursor: _orphans(cursor, limit))
    if not orphans:
        return {}
    settlements = [_rescue(claim, rescues, max_rescues) for claim, rescues in orphans.items()]
    return atomically(alias, lambda cursor: settle_lockable(cursor, alias, settlements))


# Asked for in the order of the claim index: PostgreSQL would else read the table until it has found enough.
def _orphans(cursor: CursorWrapper, limit: int) -> dict[Claim, int]:
    cursor.execute(
        f"SELECT t.id, t.version, t.rescues FROM {TASK} t"
        f" LEFT JOIN {EXECUTOR} e ON e.id = t.executor AND e.alive = TRUE"
        f" WHERE t.status = {RUNNING} AND e.id IS NULL"
        f" ORDER BY t.queue, t.priority, t.claim_at, t.id LIMIT {limit:d}"
    )
    return {(task_id, version): rescues for task_id, version, rescues in cursor.fetchall()}


def _rescue(claim: Claim, rescues: int, max_rescues: int) -> Settlement:
    if rescues >= max_rescues:
        error = f"its executor died {rescues + 1} times while it ran; not rescued again"
        return Settlement(claim, RunOutcome.LOST, Then.FAILED, error=error)
    # One of those that were claimed together may be what killed the process. The first time they all go on at once;
    # then they are spread, so that it does not take the same bystanders down with it until their rescues are used up.
    after = timedelta(seconds=random.uniform(0, SPREAD * rescues))
    return Settlement(claim, RunOutcome.LOST, Then.RESCUED, after=after, error="its executor died or lost its lease")


def held_by(alias: str, executor: int) -> set[Claim]:
    """Every claim that the database knows this executor to hold."""

    def read(cursor: CursorWrapper) -> set[Claim]:
        cursor.execute(f"SELECT id, version FROM {TASK} WHERE status = {RUNNING} AND executor = {executor:d}")
        return {(task_id, version) for task_id, version in cursor.fetchall()}

    return decisively(alias, read)


def release(alias: str, settlements: list[Settlement]) -> int:
    """Give back claims that were not started; how many were still held."""
    return len(atomically(alias, lambda cursor: settle_locked(cursor, alias, settlements)))
