"""Enqueuing: one function task is one row, written as ``add_task`` writes any task."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connections, transaction

from django_delayed_tasks import clock
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import TaskExists, UnknownCode
from django_delayed_tasks.function_tasks import data
from django_delayed_tasks.function_tasks.families import family_of
from django_delayed_tasks.function_tasks.handler import FunctionHandler, handler_of
from django_delayed_tasks.function_tasks.ids import id_of, new_number
from django_delayed_tasks.function_tasks.results import new_result
from django_delayed_tasks.function_tasks.task_class import changed
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import AddAction, IfExists, RunOutcome, TaskStatus
from django_delayed_tasks.store.acceptance import refuse_expired, trace_of_caller
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.notices.wakeup import sees_commit
from django_delayed_tasks.store.schedules import add, add_many
from django_delayed_tasks.store.schedules.recurrence import with_first_times
from django_delayed_tasks.store.sql.lanes import lane_of
from django_delayed_tasks.store.sql.portions import PORTION, portions
from django_delayed_tasks.store.sql.transactions import atomically, is_in_test_case
from django_delayed_tasks.store.validation import (
    Schedule,
    valid_new_identity,
    valid_once,
    valid_priority,
    valid_trigger,
    valid_when,
)
from django_delayed_tasks.support.redaction import FUNCTION

KEPT = ("priority", "queue_name", "backend", "biz_num")
"""The attributes of ``using`` that enqueuing again keeps; no moments, which may have passed, nor once or trigger."""


class Order(NamedTuple):
    """One enqueuing: the task with moments in place of timedeltas, its data, and its row."""

    task: Any
    enqueued: data.EnqueuedCall
    schedule: Schedule


def order_of(handler: FunctionHandler, task: Any, args: Iterable[Any], kwargs: Any) -> Order:
    """Return the order to write for one enqueuing.

    Raises:
        TypeError, ValueError, InvalidTask: the arguments, or what the caller has chosen with ``using``, cannot be
            written; nothing was.
    """
    now = clock.host_now()
    biz_num, given = getattr(task, "biz_num", None), getattr(task, "trigger", None)
    trigger = valid_trigger(None if given is None else str(given))
    expires = _expires(handler, task, recurs=trigger is not None)
    code, num = valid_new_identity(handler.biz_code, new_number(now) if biz_num is None else biz_num)
    schedule = Schedule(
        code,
        num,
        valid_when(task.run_after, "run_after"),
        None,
        task.queue_name,
        valid_priority(int(task.priority)),
        trigger_text=None if trigger is None else str(trigger),
        expires_at=valid_when(expires, "expires"),
        once=valid_once(getattr(task, "once", False), trigger),
        trace=trace_of_caller(),
        lane=lane_of(code, handler),
    )
    refuse_expired(schedule, "expires")
    family = family_of(task)
    moments = {"run_after": _moment(task.run_after, now), "expires": _moment(expires, now)}
    fixed = changed(task, biz_num=None if biz_num is None else num, trigger=trigger, **moments)
    positional, named = (data.normalized(family, data.ARGUMENTS, given) for given in (list(args), dict(kwargs)))
    enqueued = data.EnqueuedCall(task.module_path, positional, named, now, _using(handler, fixed))
    return Order(fixed, enqueued, schedule._replace(biz_ext=data.written(enqueued, num)))


def _expires(handler: FunctionHandler, task: Any, recurs: bool) -> Any:
    """Return until when the task may start. What the function says is not for the later times of a trigger."""
    of_call, of_function = getattr(task, "expires", None), getattr(handler.task, "expires", None)
    if of_call is not None and of_call != of_function:
        return of_call
    return None if recurs else handler.options.expires


def _using(handler: FunctionHandler, task: Any) -> dict[str, Any]:
    if task is handler.task:
        return {}
    chosen = {name: getattr(task, name, None) for name in data.USABLE}
    return {name: value for name, value in chosen.items() if value != getattr(handler.task, name, None)}


def _moment(value: datetime | timedelta | None, now: datetime) -> datetime | None:
    return now + value if isinstance(value, timedelta) else value


Announce = Callable[[Any], None]
"""Sends ``task_enqueued`` for a result."""


def enqueue(alias: str, order: Order, announce: Announce) -> Any | None:
    """Write one row, in the caller's transaction if there is one; return the result, or None if it was filtered.

    It is announced once that is committed, and before it can run.
    """
    [schedule] = with_first_times(alias, [order.schedule])
    added = _write(alias, order.task, schedule)
    if added.action is AddAction.FILTERED:
        return None
    result = new_result(order.task, id_of(added.task_id, schedule.biz_num), order.enqueued)
    try:
        _announce(alias, [result], announce)
    finally:
        wakeup.when_added(alias, [schedule], added)
    return result


def _announce(alias: str, results: Iterable[Any], announce: Announce) -> None:
    """Announce results; after the commit, if the caller has a transaction, which may yet be rolled back."""
    connection = connections[alias]
    waits = connection.in_atomic_block and sees_commit(connection) and not is_in_test_case(connection)
    for result in results:
        if waits:  # no partial: Django before 6.1 cannot log the error of a hook that has no __qualname__
            transaction.on_commit(lambda result=result: announce(result), using=alias, robust=True)  # type: ignore[misc]
        else:
            announce(result)


def _write(alias: str, task: Any, schedule: Schedule) -> AddResult:
    if getattr(task, "biz_num", None) is None:  # it has a new number
        return add.add_new(alias, schedule)
    write = add_many.add_once if schedule.once else add.add
    return write(alias, schedule, IfExists.REPLACE)


def enqueue_many(alias: str, orders: Sequence[Order], announce: Announce) -> list[Any | None]:
    """Write all rows, many in one statement; return the results in the order of the orders.

    As with ``add_tasks``, each portion is a transaction of its own, unless the caller has one open.
    """
    results: list[Any | None] = []
    for some in portions(orders):
        results += _enqueue_portion(alias, some, announce)
    return results


def _enqueue_portion(alias: str, orders: Sequence[Order], announce: Announce) -> list[Any | None]:
    schedules = with_first_times(alias, [order.schedule for order in orders])
    if any(schedule.once for schedule in schedules):
        return [enqueue(alias, order, announce) for order in orders]
    keys = atomically(alias, lambda cursor: _write_many(alias, schedules))
    ids = [id_of(keys[schedule[:2]], schedule.biz_num) for schedule in schedules]
    results = [new_result(order.task, result_id, order.enqueued) for order, result_id in zip(orders, ids, strict=True)]
    try:
        _announce(alias, results, announce)
    finally:
        wakeup.when_added(alias, schedules)
    return results


def _write_many(alias: str, schedules: Sequence[Schedule]) -> dict[tuple[str, str], int]:
    """Write the rows, and return their primary keys, which MySQL does not report for many rows."""
    add_many.add_many(alias, schedules, IfExists.REPLACE, PORTION)
    nums: dict[str, list[str]] = {}
    for schedule in schedules:
        nums.setdefault(schedule.biz_code, []).append(schedule.biz_num)
    keys: dict[tuple[str, str], int] = {}
    for code, of_code in nums.items():
        rows = Task.objects.using(alias).filter(biz_code=code, biz_num__in=of_code)
        keys |= {(code, num): task_id for num, task_id in rows.values_list("biz_num", "id")}
    return keys


def key_of_success(alias: str, biz_code: str, biz_num: str) -> int | None:
    """Return the primary key that the task of this identity had when it was done; None if the history does not say."""
    runs = TaskRun.objects.using(alias).filter(biz_code=biz_code, biz_num=biz_num).order_by("-id")
    runs = runs.filter(outcome=RunOutcome.DONE)
    key: int | None = runs.values_list("task_id", flat=True).first()
    return key


def enqueued_by(biz_ext: Any) -> data.EnqueuedCall | None:
    """Return the enqueuing that this data describes; None if it is not that of a function."""
    function = biz_ext.get(FUNCTION) if isinstance(biz_ext, dict) else None
    return data.read(biz_ext, function) if isinstance(function, str) else None


def enqueue_again(biz_code: str, enqueued: data.EnqueuedCall) -> Any:
    """Enqueue a function as it was enqueued before, to be run at once; return the new result.

    A business identity is kept.

    Raises:
        UnknownCode: there is no such function here.
        TaskExists: a task of the business identity waits or runs.
        InvalidTask: the exception of the framework's family: the backend does not accept it any more.
    """
    handler = handler_of(biz_code, enqueued)
    if handler is None:
        raise UnknownCode("biz_code", biz_code, "is no task function here")
    task = changed(handler.task, **{name: value for name, value in enqueued.using.items() if name in KEPT})
    if task.biz_num is not None and _waits_or_runs(biz_code, task.biz_num):
        raise TaskExists(biz_code, task.biz_num)
    return task.enqueue(*enqueued.args, **enqueued.kwargs)


def _waits_or_runs(biz_code: str, biz_num: str) -> bool:
    rows = Task.objects.using(settings.DATABASE).filter(biz_code=biz_code, biz_num=biz_num)
    return rows.exclude(status=TaskStatus.FAILED).exists()
