"""Pausing: a paused task is not claimed until it is resumed, nor is anything of a paused queue."""

from datetime import datetime

from django.db import IntegrityError, connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.schedules.cancel import IDENTITY
from django_delayed_tasks.store.schedules.recurrence import by_chance
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import fence
from django_delayed_tasks.store.sql.lanes import OPENED
from django_delayed_tasks.store.sql.tables import PAUSED, PAUSED_QUEUE, PENDING, RESET_COUNTS, RUNNING, STOPPING, TASK
from django_delayed_tasks.store.sql.transactions import atomically, in_one_write
from django_delayed_tasks.triggers import next_time, parse_stored


def pause(alias: str, biz_code: str, biz_num: str) -> bool:
    """Pause the task of this identity; a running task is paused when its run has ended.

    Return False if there is no task to pause, or if it is running and was cancelled. A later add or reschedule ends the
    pause.
    """
    # status comes last: MySQL evaluates assignments from left to right and sees the values already assigned.
    changes = (
        f"pause_requested = CASE WHEN status = {RUNNING} THEN TRUE ELSE NULL END,"
        f" lane = CASE WHEN status = {PENDING} THEN {OPENED} ELSE lane END,"
        f" version = CASE WHEN status = {PENDING} THEN version + 1 ELSE version END,"
        f" update_time = {dialect_of(connections[alias]).now},"
        f" status = CASE WHEN status = {PENDING} THEN {PAUSED} ELSE status END"
    )
    condition = f"{IDENTITY} AND status IN ({PENDING}, {RUNNING}, {PAUSED}) AND NOT {STOPPING}"

    def write(cursor: CursorWrapper) -> bool:
        cursor.execute(f"UPDATE {TASK} SET {changes} WHERE {condition}", [biz_code, biz_num])
        return bool(cursor.rowcount)

    return atomically(alias, write)


def resume(alias: str, biz_code: str, biz_num: str) -> bool:
    """End the pause; return False if the task is not paused.

    A recurring task then waits for its next time from now on; any other task waits for its time, or is due at once.
    """
    return atomically(alias, lambda cursor: _resume(cursor, dialect_of(connections[alias]), [biz_code, biz_num]))


def _resume(cursor: CursorWrapper, dialect: Dialect, identity: list[str]) -> bool:
    dialect.begin_writing(cursor, TASK)
    columns = f"id, version, status, trigger_text, when_time, pause_requested, {dialect.now}"
    cursor.execute(f"SELECT {columns} FROM {TASK} WHERE {IDENTITY}{dialect.for_update}", identity)
    row = cursor.fetchone()
    if row is None or (row[2] != PAUSED and not row[5]):
        return False
    task_id, version, status, trigger, when, _, now = row
    if status == RUNNING:
        cursor.execute(f"UPDATE {TASK} SET pause_requested = NULL WHERE {fence([(task_id, version)])}")
        return True
    present = dialect.to_datetime(now)
    moments = _next_time(trigger, dialect.to_datetime(when), present)
    # The counters belong to a run for a time that has passed, or to an extra run before the next time.
    is_another_time = trigger is not None and moments[0] > present
    cursor.execute(
        f"UPDATE {TASK} SET status = {PENDING}, version = version + 1, when_time = %s,"
        f" claim_at = {dialect.greatest('%s', dialect.now)}, update_time = {dialect.now}"
        f"{f', {RESET_COUNTS}' if is_another_time else ''}"
        f" WHERE {fence([(task_id, version)])}",
        list(map(dialect.stored, moments)),
    )
    return True


def _next_time(text: str | None, when: datetime, now: datetime) -> tuple[datetime, datetime]:
    """Return the time to wait for, and the moment from which its run may start."""
    if text is None:
        return when, when
    trigger = parse_stored(text)
    if when <= now:
        when = next_time(trigger, when, now) or when
    return when, by_chance(trigger, when)


def pause_queue(alias: str, queue: str) -> bool:
    """Pause the queue, so that nothing of it is claimed; return False if it is paused already."""
    dialect = dialect_of(connections[alias])
    insert = f"INSERT INTO {PAUSED_QUEUE} (queue, paused_at) VALUES (%s, {dialect.now})"

    def write(cursor: CursorWrapper) -> bool:
        if dialect.connection.vendor == "mysql":
            return _is_inserted(cursor, insert, queue)
        cursor.execute(f"{insert} ON CONFLICT (queue) DO NOTHING", [queue])
        return bool(cursor.rowcount)

    return in_one_write(alias, write)


def _is_inserted(cursor: CursorWrapper, insert: str, queue: str) -> bool:
    """Insert on MariaDB and MySQL, where IGNORE would also hide that the connection's charset cannot pass the name."""
    try:
        cursor.execute(insert, [queue])
    except IntegrityError:  # on these databases, the caller's transaction remains usable
        return False
    return True


def resume_queue(alias: str, queue: str) -> bool:
    """Resume the queue, so that its tasks are claimed again; return False if it was not paused."""

    def write(cursor: CursorWrapper) -> bool:
        cursor.execute(f"DELETE FROM {PAUSED_QUEUE} WHERE queue = %s", [queue])
        return bool(cursor.rowcount)

    return in_one_write(alias, write)
