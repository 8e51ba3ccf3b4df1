"""Locking tasks that a caller has read before."""

from collections.abc import Collection

from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.fences import Claim, fence
from django_delayed_tasks.store.sql.tables import TASK


def lock_unchanged(cursor: CursorWrapper, dialect: Dialect, seen: Collection[Claim]) -> dict[Claim, int]:
    """Lock the tasks that are still in the version in which they were seen; return the status of each."""
    dialect.begin_writing(cursor, TASK)
    # The status is returned, not compared, so that only entries of the indexes on keys are read, and locked.
    cursor.execute(
        f"SELECT t.id, t.version, t.status FROM {dialect.to_lock(TASK, fence(seen))} WHERE {fence(seen, 't.')}"
        f" ORDER BY t.id{dialect.for_update}"
    )
    return {(task_id, version): status for task_id, version, status in cursor.fetchall()}
