"""Recurring tasks that handlers declare: each exists while some executor has the handler, and follows its code."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.models import Recurrence, Task
from django_delayed_tasks.states import AddAction, IfExists
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.schedules import add, verbs
from django_delayed_tasks.store.schedules.recurrence import first_time, jittered, read_now
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.fences import unchanged
from django_delayed_tasks.store.sql.tables import CARRIED, FAILED, PAUSED, PENDING, RESET_COUNTS, RUNNING, TASK
from django_delayed_tasks.store.sql.transactions import atomically
from django_delayed_tasks.store.validation import Schedule
from django_delayed_tasks.support.logs import Log
from django_delayed_tasks.triggers import parse

logger = Log(__name__)

NUM = "recurring"
"""The ``biz_num`` of the task that a handler's trigger creates."""


class DeclaredTask(NamedTuple):
    """A recurring task as its handler declares it."""

    biz_code: str
    trigger_text: str
    queue: str
    priority: int
    lane: str = ""


def declare(alias: str, declared: Iterable[DeclaredTask]) -> list[str]:
    """Create or change the declared tasks where they differ; return the codes of those created or changed.

    The last caller decides: in a rolling deploy, these are the newest executors.
    """
    now = read_now(alias)
    return [one.biz_code for one in sorted(declared) if _declare(alias, one, now)]


def _declare(alias: str, declared: DeclaredTask, now: datetime) -> bool:
    if parse(declared.trigger_text).next_after(now) is None:
        logger.warning("%s: %s has no further time", declared.biz_code, declared.trigger_text)
        return _end_another(alias, declared)

    def work(cursor: CursorWrapper) -> bool:
        dialect = dialect_of(connections[alias])
        dialect.begin_writing(cursor, TASK)
        _note(alias, declared, now)
        return _apply(cursor, dialect, declared, now)

    return atomically(alias, work)


def _note(alias: str, declared: DeclaredTask, now: datetime) -> None:
    Recurrence.objects.using(alias).update_or_create(
        biz_code=declared.biz_code, defaults={"trigger_text": declared.trigger_text, "declared_at": now}
    )


def _apply(cursor: CursorWrapper, dialect: Dialect, declared: DeclaredTask, now: datetime) -> bool:
    rows = Task.objects.using(dialect.connection.alias).select_for_update()
    task = rows.filter(biz_code=declared.biz_code, biz_num=NUM).first()
    found = task and _next_of(task)
    if task is None or (not task.by_handler and found is None):
        return _create(cursor, dialect, declared, now)
    if not task.by_handler:
        return False
    if task.status == FAILED:  # as one whose trigger an executor with older code could not read
        _change(cursor, dialect, task, declared, now)
    elif found == (declared.trigger_text, declared.queue, declared.priority):
        return False
    elif found and found[0] == declared.trigger_text:
        _move(cursor, dialect, task, declared)
    elif task.status == RUNNING:
        _change_beside_run(cursor, dialect, task, declared, now)
    else:
        _change(cursor, dialect, task, declared, now)
    return True


def _next_of(task: Task) -> tuple[Any, ...] | None:
    """Return the trigger, queue and priority by which the task will recur after its current run, if any.

    None if the task is to end then.
    """
    if task.deferred_when is not None:
        return task.deferred_trigger_text, task.deferred_queue, task.deferred_priority
    return None if task.cancel_requested_at else (task.trigger_text, task.queue, task.priority)


def _create(cursor: CursorWrapper, dialect: Dialect, declared: DeclaredTask, now: datetime) -> bool:
    when, claim_at = _first(declared, now)
    schedule = Schedule(
        declared.biz_code, NUM, when, None, declared.queue, declared.priority, declared.trigger_text,
        claim_at=claim_at, lane=declared.lane,
    )  # fmt: skip
    added = add.add(dialect.connection.alias, schedule, IfExists.KEEP)
    if added.action is AddAction.KEPT:
        return False  # a caller has added it meanwhile
    cursor.execute(f"UPDATE {TASK} SET by_handler = TRUE WHERE id = {added.task_id:d}")
    return True


def _first(declared: DeclaredTask, now: datetime) -> tuple[datetime, datetime]:
    """Return the first time of the declared trigger, and the moment from which its run may start."""
    trigger = parse(declared.trigger_text)
    when = first_time(trigger, now)
    return when, jittered(trigger, when)


def _change(cursor: CursorWrapper, dialect: Dialect, task: Task, declared: DeclaredTask, now: datetime) -> None:
    when, claim_at = map(dialect.stored, _first(declared, now))
    cursor.execute(
        f"UPDATE {TASK} SET trigger_text = %s, when_time = %s, claim_at = %s, queue = %s, priority = %s,"
        f" version = version + 1, {RESET_COUNTS}, lane = %s, update_time = {dialect.now},"
        f" status = CASE WHEN status = {PAUSED} THEN {PAUSED} ELSE {PENDING} END"
        f" WHERE {unchanged([(task.pk, task.version)])}",
        [declared.trigger_text, when, claim_at, declared.queue, declared.priority, declared.lane],
    )


def _move(cursor: CursorWrapper, dialect: Dialect, task: Task, declared: DeclaredTask) -> None:
    """Change the queue and the priority alone: the time of the task, its attempts and its retry remain."""
    if task.status == RUNNING:
        columns = "queue = %s, priority = %s"
        if task.deferred_when is not None:
            columns = "deferred_queue = %s, deferred_priority = %s"
        given: list[Any] = [declared.queue, declared.priority]
    else:
        columns = f"queue = %s, priority = %s, lane = %s, version = version + 1, update_time = {dialect.now}"
        given = [declared.queue, declared.priority, declared.lane]
    cursor.execute(f"UPDATE {TASK} SET {columns} WHERE {unchanged([(task.pk, task.version)])}", given)


def _change_beside_run(
    cursor: CursorWrapper, dialect: Dialect, task: Task, declared: DeclaredTask, now: datetime
) -> None:
    when = dialect.stored(_first(declared, now)[0])
    new = ("queue", "priority", "trigger_text")
    kept = ", ".join(f"deferred_{column} = {column}" for column in CARRIED if column not in new)
    given = ", ".join(f"deferred_{column} = %s" for column in new)
    cursor.execute(
        f"UPDATE {TASK} SET {kept}, {given}, deferred_keeps_ext = TRUE, deferred_when = %s"
        f" WHERE {unchanged([(task.pk, task.version)])}",
        [declared.queue, declared.priority, declared.trigger_text, when],
    )


def confirm(alias: str, declared: Iterable[DeclaredTask]) -> set[str]:
    """Confirm that the handlers of these codes have a trigger.

    Return the codes that are to be declared again: they are no longer declared, or their task has failed and has the
    same trigger, so that executors with older code do not bring back an older one.
    """
    texts = {one.biz_code: one.trigger_text for one in declared}
    if not texts:
        return set()
    known = Recurrence.objects.using(alias).filter(biz_code__in=texts)
    is_complete = known.update(declared_at=read_now(alias)) == len(texts)
    missing = set() if is_complete else set(texts).difference(known.values_list("biz_code", flat=True))
    failed = Task.objects.using(alias).filter(biz_code__in=texts, biz_num=NUM, by_handler=True, status=FAILED)
    return missing | {task.biz_code for task in failed if task.trigger_text == texts[task.biz_code]}


def retire(alias: str, codes: Sequence[str] | None = None, unconfirmed_for: timedelta = timedelta()) -> list[str]:
    """End the declared tasks of these codes that have not been confirmed for ``unconfirmed_for``; return their codes.

    With ``codes`` None, these are all codes that no live executor handles.
    """
    before = read_now(alias) - unconfirmed_for
    gone = Recurrence.objects.using(alias).filter(declared_at__lte=before)
    gone = gone.exclude(biz_code__in=_handled(alias)) if codes is None else gone.filter(biz_code__in=codes)
    return [code for code in gone.order_by("biz_code").values_list("biz_code", flat=True) if _end(alias, code, before)]


def _handled(alias: str) -> set[str]:
    """Return the codes that a live executor has a handler for: it may not have confirmed them yet."""
    return set().union(*(peer.codes for peer in executors.live(alias)))


def _end(alias: str, code: str, before: datetime) -> bool:
    def work(cursor: CursorWrapper) -> bool:
        _stop(cursor, dialect_of(connections[alias]), code, "its handler has gone")
        deleted, _ = Recurrence.objects.using(alias).filter(biz_code=code, declared_at__lte=before).delete()
        if not deleted:
            transaction.set_rollback(True, using=alias)  # another executor has declared it meanwhile
        return bool(deleted)

    return atomically(alias, work)


def _end_another(alias: str, declared: DeclaredTask) -> bool:
    """End the task if it recurs by another trigger than the declared one, which has no further time.

    A task that has the declared trigger is in its last run and ends by itself.
    """

    def work(cursor: CursorWrapper) -> bool:
        dialect = dialect_of(connections[alias])
        dialect.begin_writing(cursor, TASK)
        rows = Task.objects.using(alias).select_for_update()
        task = rows.filter(biz_code=declared.biz_code, biz_num=NUM, by_handler=True).first()
        going_on = _next_of(task) if task else None
        if going_on is None or going_on[0] == declared.trigger_text:
            return False
        _stop(cursor, dialect, declared.biz_code, f"its handler's trigger has no further time: {declared.trigger_text}")
        return True

    return atomically(alias, work)


def _stop(cursor: CursorWrapper, dialect: Dialect, code: str, why: str) -> None:
    """End the task that the handler of this code declared: now, or when its current run has ended."""
    verbs.cancel_one(cursor, dialect, f"{verbs.IDENTITY} AND by_handler = TRUE", [code, NUM], why)
