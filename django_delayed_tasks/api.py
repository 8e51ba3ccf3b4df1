"""The facade: the functions that a project calls. Each names its steps in their order and leaves them to the store.

It imports the executor only when one is started: a web process that only adds tasks loads no module of it.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from django.db.models import QuerySet

from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask, TaskException, TaskExists
from django_delayed_tasks.handlers import TaskHandler, accepts, get_task_handlers, register_task_handler, scheduling
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import BizNum, CancelResult, IfExists, IfExistsName
from django_delayed_tasks.store.acceptance import accepted, known_code, known_identity
from django_delayed_tasks.store.claiming.preview import PlannedRun, planned_runs
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.records import once as successes
from django_delayed_tasks.store.schedules import add as adding
from django_delayed_tasks.store.schedules import add_many, pause, recurrence, verbs
from django_delayed_tasks.store.schedules import find as finding
from django_delayed_tasks.store.validation import (
    When,
    valid_choice,
    valid_code,
    valid_identity,
    valid_moment,
    valid_new_queue,
    valid_offset,
    valid_queue,
    valid_when,
)

__all__ = [
    "TaskException",
    "TaskExists",
    "TaskHandler",
    "add_task",
    "add_tasks",
    "cancel_task",
    "cancel_tasks",
    "delete_tasks",
    "forget",
    "get_runs",
    "get_task_handlers",
    "get_tasks_by_code",
    "pause_queue",
    "pause_task",
    "preview",
    "register_task_handler",
    "reschedule_task",
    "reschedule_tasks",
    "resume_queue",
    "resume_task",
    "retry_tasks",
    "shutdown",
    "start",
]


P = ParamSpec("P")
R = TypeVar("R")


def _called_as(example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that the error of a call with other arguments shows the example."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*arguments: P.args, **named: P.kwargs) -> R:
            try:
                return function(*arguments, **named)
            except TypeError as error:
                if accepts(function, *arguments, **named):
                    raise
                raise TypeError(f"{error}: write {example}") from None

        return called

    return decorate


@_called_as("add_task(Task(biz_code=..., biz_num=...)), or use schedule() of the handler")
def add_task(
    task: Task, *, if_exists: IfExists | IfExistsName = IfExists.REPLACE, once: bool = False, using: str | None = None
) -> AddResult:
    """Schedule ``task``, an unsaved row, to run at its ``when``.

    ``when`` is an aware datetime, a timedelta from now, or None for at once.

    This takes one statement (two for a running task, and on MariaDB and MySQL for a new task inside a transaction),
    and is part of the caller's transaction if there is one. If a task with the same (``biz_code``, ``biz_num``)
    exists, "replace" gives it the new schedule (if it is running, for after its run), "keep" leaves it unchanged,
    "raise" refuses, and "earliest" and "latest" keep the earlier or later of the two schedules. With ``once``, an
    identity that was added with ``once`` before and has succeeded is FILTERED: nothing is written.

    Raises:
        InvalidTask: a field has a value that is not accepted; the message names both, and nothing was written.
        UnknownCode: no handler has this ``biz_code``.
        TaskExists: a task with this identity exists, and ``if_exists`` is "raise".
    """
    alias = database(using)
    [schedule] = recurrence.with_first_times(alias, [accepted(task, once)])
    add = add_many.add_once if once else adding.add
    result = add(alias, schedule, _mode(if_exists))
    wakeup.when_added(alias, [schedule], result)
    return result


def add_tasks(
    tasks: Iterable[Task],
    *,
    if_exists: IfExists | IfExistsName = IfExists.REPLACE,
    once: bool = False,
    batch_size: int = 1000,
    using: str | None = None,
) -> int:
    """Schedule many tasks, ``batch_size`` rows per statement, and return how many were created, replaced or deferred.

    The arguments are the same as for :func:`add_task`. Every task is validated before the first is written. Each batch
    is a transaction of its own, unless the caller has one open.

    Raises:
        InvalidTask, UnknownCode, TaskExists: as for :func:`add_task`.
    """
    alias = database(using)
    if isinstance(tasks, Task):
        raise InvalidTask("tasks", tasks, "is one task: use add_task(...), or pass a list")
    if not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidTask("batch_size", batch_size, "must be an int of at least 1")
    schedules = recurrence.with_first_times(alias, [accepted(task, once) for task in tasks])
    add = add_many.add_many_once if once else add_many.add_many
    added = add(alias, schedules, _mode(if_exists), batch_size)
    wakeup.when_added(alias, schedules)
    return added


def _mode(if_exists: IfExists | str) -> IfExists:
    try:
        return IfExists(if_exists)
    except ValueError:
        raise InvalidTask("if_exists", if_exists, f"must be one of {', '.join(IfExists)}") from None


def cancel_task(biz_code: str, biz_num: BizNum, *, using: str | None = None) -> CancelResult:
    """Cancel the task with this identity.

    Return CANCELLED if it was waiting, and is deleted; STOPPING if it is running, and will not be run again; MISSING,
    which is false, if no task has this identity.

    Raises:
        InvalidTask: the values are not a valid identity.
        UnknownCode: neither a handler nor a row has this ``biz_code``.
    """
    alias = database(using)
    return verbs.cancel(alias, *known_identity(alias, biz_code, biz_num))


def reschedule_task(biz_code: str, biz_num: BizNum, when: When, *, using: str | None = None) -> bool:
    """Give the task with this identity a new time, and reset its attempt counter; keep its data and ``expires_at``.

    At a time later than that, it expires. Return False if no task has this identity.

    Raises:
        InvalidTask: the values are not a valid identity, or ``when`` is not accepted.
        UnknownCode: neither a handler nor a row has this ``biz_code``.
    """
    alias = database(using)
    when = valid_when(when)
    found = verbs.rescheduling(when).to_identity(alias, *known_identity(alias, biz_code, biz_num))
    wakeup.when_committed(alias, lambda: [wakeup.ANY] if wakeup.is_soon(when) else [])
    return found


def forget(biz_code: str, biz_num: BizNum, *, using: str | None = None) -> bool:
    """Forget that the task with this identity has succeeded, so that it can be added with ``once`` again.

    Return False if no such success is recorded.

    Raises:
        InvalidTask: the values are not a valid identity.
        UnknownCode: neither a handler nor a row has this ``biz_code``.
    """
    alias = database(using)
    return successes.forget(alias, *known_identity(alias, biz_code, biz_num))


def pause_task(biz_code: str, biz_num: BizNum, *, using: str | None = None) -> bool:
    """Pause the task with this identity until :func:`resume_task`; a run already in progress is allowed to finish.

    Return False if no task has this identity, or the task is FAILED or stopping.

    Raises:
        InvalidTask: the values are not a valid identity.
        UnknownCode: neither a handler nor a row has this ``biz_code``.
    """
    alias = database(using)
    return verbs.PAUSE.to_identity(alias, *known_identity(alias, biz_code, biz_num))


def resume_task(biz_code: str, biz_num: BizNum, *, using: str | None = None) -> bool:
    """End the pause of a task; a recurring task continues with its next time, and missed times are not made up for.

    Return False if the task is not paused.

    Raises:
        InvalidTask: the values are not a valid identity.
        UnknownCode: neither a handler nor a row has this ``biz_code``.
    """
    alias = database(using)
    found = pause.resume(alias, *known_identity(alias, biz_code, biz_num))
    wakeup.when_committed(alias)
    return found


def pause_queue(queue: str, *, using: str | None = None) -> bool:
    """Keep all executors from claiming tasks of this queue until :func:`resume_queue`.

    Executors notice it within a poll interval; claimed tasks still run. Return False if it was paused already.

    Raises:
        InvalidTask: the value is not a valid name of a queue.
    """
    return pause.pause_queue(database(using), valid_new_queue(queue))


def resume_queue(queue: str, *, using: str | None = None) -> bool:
    """End the pause of a queue; return False if it was not paused.

    Raises:
        InvalidTask: the value is not a valid name of a queue.
    """
    alias = database(using)
    found = pause.resume_queue(alias, valid_queue(queue))
    wakeup.when_committed(alias, lambda: [queue])
    return found


def cancel_tasks(
    biz_code: str,
    fragment: str | UUID | None = None,
    *,
    due_before: datetime | None = None,
    due_after: datetime | None = None,
    everything: bool = False,
    using: str | None = None,
) -> int:
    """Cancel, as ``cancel_task`` does, every task of this code that the filters select; return how many.

    The filters are the same as for ``get_tasks_by_code``: a part of the number, compared without regard to case, and
    ``due_after <= task.when < due_before``; tasks in all states are selected. This takes a transaction for each 500
    tasks, unless the caller has one open; a task that changes meanwhile, because it is claimed, is looked at again.

    Raises:
        InvalidTask: a value cannot be searched for; or the filters select every task of the code, and ``everything``
            is not True.
        UnknownCode: neither a handler nor a row has this ``biz_code``.
    """
    return change_each(_selected(using, biz_code, fragment, due_before, due_after, everything), verbs.CANCEL).total()


def reschedule_tasks(
    biz_code: str,
    fragment: str | UUID | None = None,
    *,
    by: timedelta,
    due_before: datetime | None = None,
    due_after: datetime | None = None,
    everything: bool = False,
    using: str | None = None,
) -> int:
    """Reschedule, as ``reschedule_task`` does, every task of this code that the filters select; return how many.

    The new time is ``by`` later, or earlier if it is negative, than the task's next run, or than now if that time has
    passed. The filters, transactions and errors are the same as for :func:`cancel_tasks`.
    """
    offset = valid_offset(by, "by")
    tasks = _selected(using, biz_code, fragment, due_before, due_after, everything)
    return change_each(tasks, verbs.rescheduling_by(offset)).total()


def retry_tasks(
    biz_code: str,
    fragment: str | UUID | None = None,
    *,
    failed_since: datetime | None = None,
    due_before: datetime | None = None,
    due_after: datetime | None = None,
    everything: bool = False,
    using: str | None = None,
) -> int:
    """Make every FAILED task of this code that the filters select pending again; return how many.

    Its attempt counter is reset, and it is due at its time, or now if that has passed. ``failed_since``, an aware
    datetime, selects tasks that have failed, or were last changed, at this moment or later. The other filters, the
    transactions and the errors are the same as for :func:`cancel_tasks`.
    """
    tasks = _selected(using, biz_code, fragment, due_before, due_after, everything, failed_since)
    return change_each(finding.find_failed(tasks, failed_since), verbs.RETRY).total()


def _selected(
    using: str | None,
    biz_code: str,
    fragment: str | UUID | None,
    due_before: datetime | None,
    due_after: datetime | None,
    everything: bool,
    failed_since: datetime | None = None,
    field: str = "fragment",
) -> "QuerySet[Task]":
    alias = database(using)
    code = valid_code(biz_code)
    part = valid_choice(fragment, (due_before, due_after, failed_since), everything, field)
    return finding.find_all(alias, known_code(alias, code), part, due_before, due_after)


def delete_tasks(biz_code: str, biz_num: str | UUID, *, everything: bool = False, using: str | None = None) -> int:
    """Cancel tasks like :func:`cancel_tasks`; ``biz_num`` is the part of the number."""
    tasks = _selected(using, biz_code, biz_num, None, None, everything, field="biz_num")
    return change_each(tasks, verbs.CANCEL).total()


def change_each(tasks: "QuerySet[Task]", verb: verbs.Verb) -> Counter[int]:
    """Apply the verb to each of these tasks, wake executors unless it ends them, and return how many it changed.

    They are counted by the status in which each was.
    """
    changed = verb.to_each(tasks)
    if not verb.ends:
        wakeup.when_committed(tasks.db)
    return changed


def get_tasks_by_code(
    biz_code: str | None = None,
    biz_num: BizNum | None = None,
    when: datetime | None = None,
    *,
    due_before: datetime | None = None,
    due_after: datetime | None = None,
    using: str | None = None,
) -> "QuerySet[Task]":
    """Return the pending tasks, earliest first, optionally filtered by code, part of the number, and time.

    The number is compared without regard to case. ``due_after`` and ``due_before`` are aware datetimes, of which the
    first belongs to the span and the second does not: ``due_after <= task.when < due_before``. If any of these tasks
    is scheduled for exactly ``when``, such tasks match; otherwise all later ones do.

    Raises:
        InvalidTask: a value cannot be searched for.
        UnknownCode: neither a handler nor a row has this ``biz_code``.
    """
    alias = database(using)
    code = None if biz_code is None else known_code(alias, biz_code)
    return finding.find_pending(alias, code, biz_num, when, due_before, due_after)


def get_runs(
    biz_code: str | None = None, biz_num: BizNum | None = None, *, using: str | None = None
) -> "QuerySet[TaskRun]":
    """Return the history, newest first, optionally filtered by code and part of the number (case-insensitive).

    Raises:
        InvalidTask, UnknownCode: as for :func:`get_tasks_by_code`.
    """
    alias = database(using)
    code = None if biz_code is None else known_code(alias, biz_code)
    return finding.find_runs(alias, code, biz_num)


def preview(
    until: datetime | timedelta, *, limit: int = 100, biz_code: str | None = None, using: str | None = None
) -> list[PlannedRun]:
    """Return the runs that are due until a moment, the earliest first, without running them.

    ``until`` is an aware datetime, or a timedelta from now. At most ``limit`` runs are returned, of one code if
    it is given. A recurring task appears once for each of its times. Paused, failed and running tasks are left out, and
    so are tasks in paused queues.

    Raises:
        InvalidTask: a value is not accepted.
        UnknownCode: neither a handler nor a row has this ``biz_code``.
    """
    alias = database(using)
    if not isinstance(limit, int) or limit < 1:
        raise InvalidTask("limit", limit, "must be an int of at least 1")
    moment = recurrence.read_now(alias) + valid_offset(until, "until") if isinstance(until, timedelta) else until
    code = None if biz_code is None else known_code(alias, biz_code)
    return planned_runs(alias, valid_moment(moment, "until"), limit, code)


def _task_of(biz_code: str, biz_num: BizNum, using: str | None) -> Task | None:
    return finding.find_task(database(using), *valid_identity(biz_code, biz_num))


def _runs_of(biz_code: str, biz_num: BizNum, using: str | None) -> "QuerySet[TaskRun]":
    return finding.find_runs_of(database(using), *valid_identity(biz_code, biz_num))


def start(**options: Any) -> None:
    """Start an executor in threads of this process, and return at once.

    ``options`` are the fields of :class:`~django_delayed_tasks.executor.options.ExecutorOptions`.

    Raises:
        TaskException: this process has an executor already, a live one has the same name, a transaction is open, the
            database is SQLite in memory, or freezegun has stopped the clocks.
        InvalidSetting: an option does not exist or has an invalid value.
    """
    from django_delayed_tasks.executor.process import in_process

    in_process.start(**options)


def shutdown(wait: bool = True) -> None:
    """Stop the executor that :func:`start` started, if there is one.

    It claims no more tasks, releases the ones that have not started, and lets runs finish. With ``wait``, return when
    all runs are settled or ``SHUTDOWN_TIMEOUT`` has passed.
    """
    from django_delayed_tasks.executor.process import in_process

    in_process.shutdown(wait)


def database(using: str | None) -> str:
    """Return the alias of the tasks' database: ``using``, or the one in the settings."""
    return using or settings.DATABASE


scheduling.install(
    scheduling.Facade(Task, add_task, cancel_task, reschedule_task, _task_of, _runs_of),
)
