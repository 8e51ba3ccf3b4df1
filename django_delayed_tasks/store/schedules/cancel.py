"""Cancelling the task of an identity, and deleting waiting tasks by a fragment of their number."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.states import CancelResult, RunOutcome
from django_delayed_tasks.store.records.history import record_without_run
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import Claim, fence, lock_unchanged
from django_delayed_tasks.store.sql.tables import FAILED, FORGET_DEFERRED, PAUSED, PENDING, RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import atomically
from django_delayed_tasks.store.validation import valid_part

IDENTITY = "biz_code = %s AND biz_num = %s"


def cancel(alias: str, biz_code: str, biz_num: str) -> CancelResult:
    """Cancel the task of this identity: at once if it waits; if it is running, it ends with this run."""
    return atomically(alias, lambda cursor: _cancel(cursor, alias, IDENTITY, [biz_code, biz_num]))


def cancel_claim(alias: str, task_id: int, version: int) -> CancelResult:
    """Cancel as :func:`cancel` does, but only if the row is in this version; return MISSING otherwise."""
    return atomically(alias, lambda cursor: _cancel(cursor, alias, "id = %s AND version = %s", [task_id, version]))


def cancel_seen(alias: str, seen: Collection[Claim]) -> list[int]:
    """Cancel each of these tasks as :func:`cancel` does, unless it has changed since it was seen; return their ids."""
    return atomically(alias, lambda cursor: _cancel_seen(cursor, dialect_of(connections[alias]), seen)) if seen else []


def _cancel_seen(cursor: CursorWrapper, dialect: Dialect, seen: Collection[Claim]) -> list[int]:
    found = lock_unchanged(cursor, dialect, seen)
    if running := [claim for claim, status in found.items() if status == RUNNING]:
        cursor.execute(f"{dialect.update(TASK)} SET {_requested(dialect.now)} WHERE {fence(running)}")
    if waiting := [claim for claim, status in found.items() if status != RUNNING]:
        record_without_run(cursor, fence(waiting, "t."), RunOutcome.CANCELLED, dialect.now)
        cursor.execute(f"{dialect.delete(TASK)} WHERE {fence(waiting)}")
    return [task_id for task_id, _ in found]


def _requested(now: str) -> str:
    return f"cancel_requested_at = {now}, update_time = {now}, pause_requested = NULL, {FORGET_DEFERRED}"


def _cancel(cursor: CursorWrapper, alias: str, condition: str, parameters: list[Any]) -> CancelResult:
    # The write comes first: it locks the row on every database, so what is read next cannot change.
    dialect = dialect_of(connections[alias])
    now = dialect.now
    cursor.execute(f"UPDATE {TASK} SET {_requested(now)} WHERE {condition}", parameters)
    if not cursor.rowcount:
        return CancelResult.MISSING
    cursor.execute(f"SELECT id, status FROM {TASK} WHERE {condition}", parameters)
    task_id, status = cursor.fetchone()
    if status == RUNNING:
        return CancelResult.STOPPING
    record_without_run(cursor, f"id = {task_id:d}", RunOutcome.CANCELLED, now)
    cursor.execute(f"{dialect.delete(TASK)} WHERE id = {task_id:d}")
    return CancelResult.CANCELLED


def delete(alias: str, biz_code: str, fragment: str | UUID) -> int:
    """Cancel every pending, failed or paused task of this code whose number contains ``fragment``; return how many.

    Raises:
        InvalidTask: the fragment is neither a str nor a UUID, or contains what a database cannot search for.
    """
    if isinstance(fragment, int):
        problem = "would delete all tasks whose number contains it: use cancel_task for this one, or pass a str"
        raise InvalidTask("biz_num", fragment, problem)
    searched = valid_part(fragment)
    return atomically(alias, lambda cursor: _delete(cursor, alias, biz_code, searched))


def _delete(cursor: CursorWrapper, alias: str, biz_code: str, fragment: str) -> int:
    dialect = dialect_of(connections[alias])
    condition = f"biz_code = %s AND status IN ({PENDING}, {FAILED}, {PAUSED}) AND {dialect.position('biz_num')} > 0"
    parameters = [biz_code, fragment]
    # As in _cancel: mark (and so lock) the rows first, then move exactly the marked ones to the history.
    cursor.execute(f"UPDATE {TASK} SET cancel_requested_at = {dialect.now} WHERE {condition}", parameters)
    if not cursor.rowcount:
        return 0
    marked = f"{condition} AND cancel_requested_at IS NOT NULL"
    record_without_run(cursor, marked, RunOutcome.CANCELLED, dialect.now, parameters)
    cursor.execute(f"DELETE FROM {TASK} WHERE {marked}", parameters)
    return int(cursor.rowcount)
