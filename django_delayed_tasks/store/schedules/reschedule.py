"""Rescheduling: giving an existing task a new time."""

from collections.abc import Collection
from datetime import timedelta

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import LAST_VERSION, Claim, fence, lock_unchanged
from django_delayed_tasks.store.sql.lanes import OPENED
from django_delayed_tasks.store.sql.tables import CARRIED, PENDING, RESET, RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import atomically, in_one_write
from django_delayed_tasks.store.validation import When
from django_delayed_tasks.triggers.values import LAST


def reschedule(alias: str, biz_code: str, biz_num: str, when: When) -> bool:
    """Give the task of this identity a new time; return False if there is no such task.

    If the task is running, the new time is deferred and takes effect when the run has ended.
    """
    dialect = dialect_of(connections[alias])
    moment, given = dialect.moment(when)
    sql = f"UPDATE {TASK} SET {_assignments(dialect, moment, moment)} WHERE biz_code = %s AND biz_num = %s"

    def write(cursor: CursorWrapper) -> bool:
        cursor.execute(sql, [*given, *given, *given, biz_code, biz_num])
        return bool(cursor.rowcount)

    return in_one_write(alias, write)


def reschedule_seen(alias: str, seen: Collection[Claim], by: timedelta) -> list[int]:
    """Reschedule these tasks by ``by``, from their time or now if it has passed; return their ids.

    The time of a task is that of its next run: of a retry if it waits for one, of its deferred schedule if it is
    running. A task that has changed since it was seen is left as it is.
    """
    dialect = dialect_of(connections[alias])
    next_run = shifted(dialect, dialect.greatest("claim_at", dialect.now), by)
    after_this_run = shifted(dialect, dialect.greatest("COALESCE(deferred_when, when_time)", dialect.now), by)
    assignments = _assignments(dialect, next_run, after_this_run)

    def write(cursor: CursorWrapper) -> list[int]:
        unchanged = [claim for claim in lock_unchanged(cursor, dialect, seen) if claim[1] < LAST_VERSION]
        if unchanged:
            cursor.execute(f"{dialect.update(TASK)} SET {assignments} WHERE {fence(unchanged)}")
        return [task_id for task_id, _ in unchanged]

    return atomically(alias, write)


def shifted(dialect: Dialect, moment: str, by: timedelta) -> str:
    """Return the expression for the moment ``by`` after the given one, but at most the last that is accepted."""
    later = _SHIFTED[dialect.connection.vendor].format(moment=moment, micros=by // timedelta(microseconds=1))
    if by <= timedelta():
        return later
    latest = dialect.moment_literal(LAST)
    return f"(CASE WHEN {moment} > {dialect.moment_literal(LAST - by)} THEN {latest} ELSE {later} END)"


_SHIFTED = {
    "mysql": "({moment} + INTERVAL {micros} MICROSECOND)",
    "postgresql": "({moment} + {micros} * INTERVAL '1 microsecond')",
    "sqlite": "django_format_dtdelta('+', {moment}, {micros})",
}


def _assignments(dialect: Dialect, moment: str, deferred_moment: str) -> str:
    """Return assignments like those of an add that replaces, but keeping everything except the time.

    The new time is ``moment``; while the task is running, ``deferred_moment`` is deferred. The columns in these are
    assigned last, except for ``when_time``, which does not change during a run, and ``claim_at``, which comes after it:
    MySQL evaluates from left to right and sees the values already assigned.
    """
    deferring = f"status = {RUNNING} AND deferred_when IS NULL"
    carried = {column: f"CASE WHEN {deferring} THEN {column} ELSE deferred_{column} END" for column in CARRIED}
    # FALSE, not TRUE: the task runs again even if the current run succeeds and it is to be done once
    # (docs/decisions/0012).
    carried["once"] = f"CASE WHEN {carried['once']} IS NULL THEN NULL ELSE FALSE END"
    deferred = [f"deferred_{column} = {value}" for column, value in carried.items()]
    deferred.append(f"deferred_keeps_ext = CASE WHEN {deferring} THEN TRUE ELSE deferred_keeps_ext END")
    instead = {
        "when_time": moment,
        "claim_at": dialect.greatest(moment, dialect.now),
        "version": "version + 1",
        "lane": OPENED,
    }
    changes = [
        f"{column} = CASE WHEN status = {RUNNING} THEN {column} ELSE {value} END"
        for column, value in (instead | RESET).items()
    ]
    last = [
        f"deferred_when = CASE WHEN status = {RUNNING} THEN {deferred_moment} ELSE NULL END",
        f"update_time = {dialect.now}",
        "pause_requested = NULL",
        f"status = CASE WHEN status = {RUNNING} THEN {RUNNING} ELSE {PENDING} END",
    ]
    return ", ".join(deferred + changes + last)
