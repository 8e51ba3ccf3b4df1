"""The end of a task's pause, and pauses of queues, of which nothing is claimed until they are resumed."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import IntegrityError, connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.store.schedules.recurrence import jittered
from django_delayed_tasks.store.schedules.verbs import IDENTITY
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import Seen, unchanged
from django_delayed_tasks.store.sql.tables import PAUSED, PAUSED_QUEUE, PENDING, RESET_COUNTS, RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import atomically, decisive_write
from django_delayed_tasks.triggers import next_time, parse_stored


def resume(alias: str, biz_code: str, biz_num: str) -> bool:
    """End the pause of a task; return False if it is not paused.

    A recurring task then waits for its next time from now on; any other task waits for its time, or is due at once.
    """
    dialect = dialect_of(connections[alias])
    return atomically(alias, lambda cursor: _resume(cursor, dialect, IDENTITY, [biz_code, biz_num]))


def resume_seen(alias: str, seen: Iterable[Seen]) -> list[int]:
    """End the pauses of those tasks that are still in the version in which they were seen; return their ids.

    Each is a transaction. A task with an invalid trigger, which has no next time, is left as it is.
    """
    return [one[0] for one in seen if _resume_seen(alias, one)]


def _resume_seen(alias: str, seen: Seen) -> bool:
    dialect = dialect_of(connections[alias])
    try:
        return atomically(alias, lambda cursor: _resume(cursor, dialect, unchanged([seen])))
    except InvalidTrigger:
        return False


def _resume(cursor: CursorWrapper, dialect: Dialect, condition: str, parameters: Sequence[str] = ()) -> bool:
    dialect.begin_writing(cursor, TASK)
    columns = f"id, version, status, trigger_text, when_time, pause_requested, {dialect.now}"
    cursor.execute(f"SELECT {columns} FROM {TASK} WHERE {condition}{dialect.for_update}", parameters)
    row = cursor.fetchone()
    if row is None or (row[2] != PAUSED and not row[5]):
        return False
    task_id, version, status, trigger, when, _, now = row
    if status == RUNNING:
        cursor.execute(f"UPDATE {TASK} SET pause_requested = NULL WHERE {unchanged([(task_id, version)])}")
        return True
    present = dialect.to_datetime(now)
    moments = _next_time(trigger, dialect.to_datetime(when), present)
    # The counters belong to a run for a time that has passed, or to an extra run before the next time.
    is_another_time = trigger is not None and moments[0] > present
    cursor.execute(
        f"UPDATE {TASK} SET status = {PENDING}, version = version + 1, when_time = %s,"
        f" claim_at = {dialect.greatest('%s', dialect.now)}, update_time = {dialect.now}"
        f"{f', {RESET_COUNTS}' if is_another_time else ''}"
        f" WHERE {unchanged([(task_id, version)])}",
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
    return when, jittered(trigger, when)


def pause_queue(alias: str, queue: str) -> bool:
    """Pause the queue, so that nothing of it is claimed; return False if it is paused already."""
    dialect = dialect_of(connections[alias])
    end = dialect.if_absent("queue")
    insert = f"INSERT INTO {PAUSED_QUEUE} (queue, paused_at) VALUES (%s, {dialect.now}){end}"

    def write(cursor: CursorWrapper) -> bool:
        try:
            cursor.execute(insert, [queue])
        except IntegrityError:
            if end:
                raise
            return False
        return bool(cursor.rowcount)

    return decisive_write(alias, write)


def resume_queue(alias: str, queue: str) -> bool:
    """Resume the queue, so that its tasks are claimed again; return False if it was not paused."""

    def write(cursor: CursorWrapper) -> bool:
        cursor.execute(f"DELETE FROM {PAUSED_QUEUE} WHERE queue = %s", [queue])
        return bool(cursor.rowcount)

    return decisive_write(alias, write)
