"""What a person does to tasks that he or she has seen: sooner, later, again, otherwise.

Every statement is fenced by the versions that were seen: a task that changed since, or runs, is left as it is.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.outcomes import UNCHANGED, Unchanged
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import LAST_VERSION, Claim, fence
from django_delayed_tasks.store.sql.tables import FAILED, PAUSED, PENDING, RESET, RESET_COUNTS, TASK
from django_delayed_tasks.store.sql.transactions import atomically


@dataclass(frozen=True, slots=True)
class Edit:
    """New values for a task that waits; what is left out stays. ``biz_ext`` is JSON text, or None for null."""

    when: datetime | Unchanged = UNCHANGED
    biz_ext: str | Unchanged | None = UNCHANGED
    queue: str | Unchanged = UNCHANGED
    priority: int | Unchanged = UNCHANGED


def run_now(alias: str, seen: Collection[Claim]) -> list[int]:
    """Make those of the seen tasks that are pending claimable now, attempts counted anew; their ids."""
    now = dialect_of(connections[alias]).now
    # A recurring task keeps its next time: this run is one more.
    is_early = f"when_time > {now} AND trigger_text IS NULL"
    sooner = f"when_time = CASE WHEN {is_early} THEN {now} ELSE when_time END, claim_at = {now}"
    return _steer(alias, seen, (PENDING,), f"{sooner}, {RESET_COUNTS}")


def postpone(alias: str, seen: Collection[Claim], by: timedelta) -> list[int]:
    """Put those of the seen tasks that are pending off: until ``by`` after their time, or after now; their ids."""
    dialect = dialect_of(connections[alias])
    later = _after(dialect, dialect.greatest("claim_at", dialect.now), by)
    # when_time comes first: MySQL evaluates from left to right and sees the values already assigned.
    return _steer(alias, seen, (PENDING,), f"when_time = {later}, claim_at = {later}, {RESET_COUNTS}")


def retry_failed(alias: str, seen: Collection[Claim]) -> list[int]:
    """Make those of the seen tasks that failed pending again, at their time or now; their ids."""
    dialect = dialect_of(connections[alias])
    claim_at = dialect.greatest("when_time", dialect.now)
    return _steer(alias, seen, (FAILED,), f"status = {PENDING}, claim_at = {claim_at}, {RESET_COUNTS}")


def edit(alias: str, seen: Claim, changes: Edit) -> bool:
    """Change a pending, paused or failed task (which stays what it is); False if it changed since it was seen, or runs.

    An ``Edit`` of nothing is not written either: False.
    """
    dialect = dialect_of(connections[alias])
    return bool(_steer(alias, [seen], (PENDING, FAILED, PAUSED), *_assignments(dialect, changes)))


def _assignments(dialect: Dialect, changes: Edit) -> tuple[str, list[Any]]:
    assignments: list[str] = []
    parameters: list[Any] = []
    if not isinstance(changes.when, Unchanged):
        moment, given = dialect.moment(changes.when)
        assignments += [f"when_time = {moment}", f"claim_at = {dialect.greatest(moment, dialect.now)}"]
        assignments += [_unless_failed(column, value) for column, value in RESET.items()]
        parameters += given * 2
    if not isinstance(changes.biz_ext, Unchanged):
        assignments.append(f"biz_ext = {dialect.json('%s')}")
        parameters.append(changes.biz_ext)
    for column, value in (("queue", changes.queue), ("priority", changes.priority)):
        if not isinstance(value, Unchanged):
            assignments.append(f"{column} = %s")
            parameters.append(value)
    return ", ".join(assignments), parameters


def _unless_failed(column: str, value: str) -> str:
    return f"{column} = CASE WHEN status = {FAILED} THEN {column} ELSE {value} END"


def _steer(
    alias: str, seen: Collection[Claim], statuses: Collection[int], assignments: str, parameters: Sequence[Any] = ()
) -> list[int]:
    dialect = dialect_of(connections[alias])

    def write(cursor: CursorWrapper) -> list[int]:
        unchanged = _locked(cursor, dialect, seen, statuses)
        if unchanged:
            sql = f"UPDATE {TASK} SET version = version + 1, update_time = {dialect.now}, {assignments}"
            cursor.execute(f"{sql} WHERE {fence(unchanged)}", parameters)
        return [task_id for task_id, _ in unchanged]

    return atomically(alias, write) if seen and assignments else []


def _locked(cursor: CursorWrapper, dialect: Dialect, seen: Collection[Claim], statuses: Collection[int]) -> list[Claim]:
    """Those of the seen tasks that are as they were seen, in one of these statuses; they stay so until the end."""
    dialect.begin_writing(cursor, TASK)
    # The status is compared here, so that nothing but the primary key can be read (and locked) for this.
    cursor.execute(f"SELECT id, version, status FROM {TASK} WHERE {fence(seen)} ORDER BY id{dialect.for_update}")
    found = cursor.fetchall()
    return [(task_id, version) for task_id, version, status in found if status in statuses and version < LAST_VERSION]


def _after(dialect: Dialect, moment: str, by: timedelta) -> str:
    return _AFTER[dialect.connection.vendor].format(moment=moment, micros=by // timedelta(microseconds=1))


_AFTER = {
    "mysql": "({moment} + INTERVAL {micros} MICROSECOND)",
    "postgresql": "({moment} + {micros} * INTERVAL '1 microsecond')",
    "sqlite": "django_format_dtdelta('+', {moment}, {micros})",
}
