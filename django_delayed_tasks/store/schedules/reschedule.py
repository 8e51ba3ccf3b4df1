"""Rescheduling: giving an existing task a new time."""

from typing import Any

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.tables import CARRIED, PENDING, RESET, RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import in_one_statement
from django_delayed_tasks.store.validation import When


def reschedule(alias: str, biz_code: str, biz_num: str, when: When) -> bool:
    """Give the task of this identity a new time; return False if there is no such task.

    If the task is running, the new time is deferred and takes effect when the run has ended.
    """
    dialect = dialect_of(connections[alias])
    assignments, parameters = _assignments(dialect, when)
    sql = f"UPDATE {TASK} SET {assignments} WHERE biz_code = %s AND biz_num = %s"

    def write(cursor: CursorWrapper) -> bool:
        cursor.execute(sql, [*parameters, biz_code, biz_num])
        return bool(cursor.rowcount)

    return in_one_statement(alias, write)


def _assignments(dialect: Dialect, when: When) -> tuple[str, list[Any]]:
    """Return assignments like those of an add that replaces, but keeping everything except the time.

    ``deferred_when`` and ``status`` come last: MySQL evaluates from left to right and sees the values already assigned.
    """
    moment, given = dialect.moment(when)
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
    }
    changes = [
        f"{column} = CASE WHEN status = {RUNNING} THEN {column} ELSE {value} END"
        for column, value in (instead | RESET).items()
    ]
    last = [
        f"deferred_when = CASE WHEN status = {RUNNING} THEN {moment} ELSE NULL END",
        f"update_time = {dialect.now}",
        "pause_requested = NULL",
        f"status = CASE WHEN status = {RUNNING} THEN {RUNNING} ELSE {PENDING} END",
    ]
    return ", ".join(deferred + changes + last), given * 3
