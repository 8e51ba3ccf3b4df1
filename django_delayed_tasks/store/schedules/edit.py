"""Edits of tasks that were seen, fenced by the versions that they had: run now, postpone, retry, change.

A task that has changed since, or that is running, is left as it is.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connections
from django.db.backends.utils import CursorWrapper
from django.db.models import QuerySet

from django_delayed_tasks.models import Task
from django_delayed_tasks.outcomes import UNCHANGED, Unchanged
from django_delayed_tasks.store.schedules.reschedule import shifted
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import LAST_VERSION, Claim, fence, lock_unchanged
from django_delayed_tasks.store.sql.lanes import OPENED
from django_delayed_tasks.store.sql.tables import FAILED, PAUSED, PENDING, RESET, RESET_COUNTS, TASK
from django_delayed_tasks.store.sql.transactions import atomically


@dataclass(frozen=True, slots=True)
class Edit:
    """New values for a waiting task; a field left out is not changed. ``biz_ext`` is JSON text, or None for null."""

    when: datetime | Unchanged = UNCHANGED
    biz_ext: str | Unchanged | None = field(default=UNCHANGED, repr=False)  # may hold secrets
    queue: str | Unchanged = UNCHANGED
    priority: int | Unchanged = UNCHANGED


def run_now(alias: str, seen: Collection[Claim]) -> list[int]:
    """Make the pending ones of these tasks claimable now and reset their attempt counters; return their ids."""
    now = dialect_of(connections[alias]).now
    # A recurring task keeps its next time: this is an extra run.
    is_early = f"when_time > {now} AND trigger_text IS NULL"
    sooner = f"when_time = CASE WHEN {is_early} THEN {now} ELSE when_time END, claim_at = {now}"
    return _steer(alias, seen, (PENDING,), f"{sooner}, {RESET_COUNTS}")


def postpone(alias: str, seen: Collection[Claim], by: timedelta) -> list[int]:
    """Postpone the pending ones of these tasks by ``by``, from their time or now if it has passed; return their ids."""
    dialect = dialect_of(connections[alias])
    later = shifted(dialect, dialect.greatest("claim_at", dialect.now), by)
    # when_time comes first: MySQL evaluates from left to right and sees the values already assigned.
    return _steer(alias, seen, (PENDING,), f"when_time = {later}, claim_at = {later}, {RESET_COUNTS}")


def retry_failed(alias: str, seen: Collection[Claim]) -> list[int]:
    """Make the failed ones of these tasks pending again, at their time or now; return their ids."""
    dialect = dialect_of(connections[alias])
    claim_at = dialect.greatest("when_time", dialect.now)
    return _steer(alias, seen, (FAILED,), f"status = {PENDING}, claim_at = {claim_at}, {RESET_COUNTS}")


def edit(alias: str, seen: Claim, changes: Edit) -> bool:
    """Change a pending, paused or failed task, which keeps its status.

    Return False, with nothing written, if the task has changed since it was seen, if it is running, or if the ``Edit``
    is empty.
    """
    dialect = dialect_of(connections[alias])
    return bool(_steer(alias, [seen], (PENDING, FAILED, PAUSED), *_assignments(dialect, changes)))


def _assignments(dialect: Dialect, changes: Edit) -> tuple[str, list[Any]]:
    assignments: list[str] = []
    parameters: list[Any] = []
    if not isinstance(changes.when, Unchanged):
        moment, given = dialect.moment(changes.when)
        changed = {"claim_at": dialect.greatest(moment, dialect.now), **RESET}  # of a failed task: when it failed
        assignments += [f"when_time = {moment}", *(_unless_failed(column, value) for column, value in changed.items())]
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
        found = lock_unchanged(cursor, dialect, seen)
        unchanged = [claim for claim, status in found.items() if status in statuses and claim[1] < LAST_VERSION]
        if unchanged:
            sql = (
                f"UPDATE {TASK} SET version = version + 1, lane = {OPENED}, update_time = {dialect.now}, {assignments}"
            )
            cursor.execute(f"{sql} WHERE {fence(unchanged)}", parameters)
        return [task_id for task_id, _ in unchanged]

    return atomically(alias, write) if seen and assignments else []


PORTION: Final = 500
"""The most tasks that are changed in one transaction."""

Verb = Callable[[str, Collection[Claim]], list[int]]
"""Changes those of some tasks that are still in the version in which they were seen; returns their ids."""


def change_each(tasks: "QuerySet[Task]", verb: Verb) -> int:
    """Apply the verb to all tasks that the query finds now; return how many it changed.

    A portion is a transaction, unless the caller has one open. A task that changes between the look at it and its
    portion's transaction, because it is claimed, for example, is looked at again, and changed if it still matches.
    """
    ids = sorted(tasks.values_list("id", flat=True))
    portions = (ids[start : start + PORTION] for start in range(0, len(ids), PORTION))
    return sum(_change(tasks.filter(id__in=portion), verb) for portion in portions)


def _change(tasks: "QuerySet[Task]", verb: Verb, tried: Collection[Claim] = ()) -> int:
    seen = {(task.id, task.version) for task in tasks.only("id", "version")} - set(tried)
    changed = set(verb(tasks.db, sorted(seen))) if seen else set()
    left = [task_id for task_id, _ in seen if task_id not in changed]
    return len(changed) + (_change(tasks.filter(id__in=left), verb, seen) if left else 0)
