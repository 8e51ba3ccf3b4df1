"""The history: rows are written in the transaction that ends the run, and the oldest rows are purged."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.tables import RUN, TASK
from django_delayed_tasks.store.sql.transactions import atomically, in_one_statement

COLUMNS = "task_id, version, biz_code, biz_num, attempt, executor, when_time, outcome, started, finished, result, error"
OF_TASK = "t.id, t.version, t.biz_code, t.biz_num, t.attempts, NULLIF(t.executor, 0)"
"""The expressions for the columns before ``when_time``, read from a task row ``t``."""


def record_without_run(
    cursor: CursorWrapper,
    condition: str,
    outcome: RunOutcome,
    now: str,
    parameters: Sequence[Any] = (),
    error: str = "",
) -> int:
    """Write a history row for each task under ``condition`` that ends without a run; return their number."""
    cursor.execute(
        f"INSERT INTO {RUN} ({COLUMNS}) SELECT {OF_TASK}, t.when_time, {int(outcome)}, NULL, {now}, NULL, %s"
        f" FROM {TASK} t WHERE {condition}",
        [error, *parameters],
    )
    return int(cursor.rowcount)


def purge(alias: str, older_than: timedelta, batch_size: int = 1000) -> int:
    """Delete the oldest rows of the history, at most ``batch_size``, if older than ``older_than``; return their number.

    Rows are written as runs end, so the primary key nearly follows their age: no index on a time is needed.
    """
    old = in_one_statement(alias, lambda cursor: _oldest(cursor, alias, older_than, batch_size))
    return atomically(alias, lambda cursor: _delete(cursor, old)) if old else 0


def _oldest(cursor: CursorWrapper, alias: str, older_than: timedelta, batch_size: int) -> list[int]:
    cutoff = dialect_of(connections[alias]).later(-older_than)
    cursor.execute(
        f"SELECT id, CASE WHEN finished < {cutoff} THEN 1 ELSE 0 END FROM {RUN} ORDER BY id LIMIT {batch_size:d}"
    )
    return [row[0] for row in cursor.fetchall() if row[1]]


def _delete(cursor: CursorWrapper, ids: Sequence[int]) -> int:
    cursor.execute(f"DELETE FROM {RUN} WHERE id IN ({', '.join(map(str, ids))})")
    return len(ids)
