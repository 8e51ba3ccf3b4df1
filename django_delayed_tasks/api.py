"""The facade: what a project calls.

It imports the executor only when one is started: a web process that adds tasks loads none of it.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask, TaskException, TaskExists, UnknownCode
from django_delayed_tasks.handlers import (
    TaskHandler,
    find,
    get_task_handlers,
    register_task_handler,
    scheduling,
)
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import CancelResult, IfExists
from django_delayed_tasks.store.claiming import paused_queues
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.records import once as successes
from django_delayed_tasks.store.schedules import add as adding
from django_delayed_tasks.store.schedules import add_many, add_once, cancel, pause, recurrence, reschedule
from django_delayed_tasks.store.schedules import find as finding
from django_delayed_tasks.store.validation import (
    Schedule,
    When,
    valid_identity,
    valid_json,
    valid_once,
    valid_priority,
    valid_queue,
    valid_trigger,
    valid_when,
)

__all__ = [
    "TaskException",
    "TaskExists",
    "TaskHandler",
    "add_task",
    "add_tasks",
    "cancel_task",
    "delete_tasks",
    "forget",
    "get_runs",
    "get_task_handlers",
    "get_tasks_by_code",
    "pause_queue",
    "pause_task",
    "register_task_handler",
    "reschedule_task",
    "resume_queue",
    "resume_task",
    "shutdown",
    "start",
]


def add_task(
    task: Task, *, if_exists: IfExists | str = IfExists.REPLACE, once: bool = False, using: str | None = None
) -> AddResult:
    """Make ``task``, an unsaved row, happen at its ``when``.

    That is an aware datetime, a timedelta from now, or None for at once.

    One statement (two for a task that runs; on MariaDB and MySQL for a new one inside a transaction), part of the
    caller's transaction if there is one. If a task of the same (``biz_code``, ``biz_num``) exists, "replace" gives it
    the new schedule (beside its run, if it runs), "keep" leaves it, "raise" refuses, "earliest" and "latest" keep the
    earlier, or later, of the two schedules. With ``once`` an identity that was added so and has succeeded is FILTERED:
    nothing is written.

    Raises:
        InvalidTask: a field that cannot be accepted, named with its value; nothing was written.
        UnknownCode: no handler has this ``biz_code``.
        TaskExists: with "raise", when a task of this identity exists.
    """
    alias = database(using)
    [schedule] = recurrence.with_first_times(alias, [accepted(task, once)])
    add = add_once.add_once if once else adding.add
    result = add(alias, schedule, _mode(if_exists))
    wakeup.when_committed(alias, lambda: wakeup.soon([schedule]))
    return result


def add_tasks(
    tasks: Iterable[Task],
    *,
    if_exists: IfExists | str = IfExists.REPLACE,
    once: bool = False,
    batch_size: int = 1000,
    using: str | None = None,
) -> int:
    """As :func:`add_task` for many, ``batch_size`` rows in a statement; how many were created, replaced or deferred.

    Every task is looked at before the first is written. Each batch is a transaction, unless the caller has one.

    Raises:
        InvalidTask, UnknownCode, TaskExists: as :func:`add_task`.
    """
    alias = database(using)
    if not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidTask("batch_size", batch_size, "must be an int of at least 1")
    schedules = recurrence.with_first_times(alias, [accepted(task, once) for task in tasks])
    add = add_once.add_many_once if once else add_many.add_many
    added = add(alias, schedules, _mode(if_exists), batch_size)
    wakeup.when_committed(alias, lambda: wakeup.soon(schedules))
    return added


def accepted(task: Any, once: bool = False) -> Schedule:
    """The task as it will be written, with its handler's queue and priority where it names none.

    Raises:
        InvalidTask, UnknownCode: it cannot be accepted.
    """
    if not isinstance(task, Task):
        raise InvalidTask("task", task, "must be a Task")
    code, num = valid_identity(task.biz_code, task.biz_num)
    handler = find(code)
    if handler is None and not settings.ALLOW_UNKNOWN_CODES:
        known = ", ".join(sorted(get_task_handlers())) or "none"
        hint = "handlers are found in the task_handlers modules of INSTALLED_APPS and in TASK_HANDLERS"
        raise UnknownCode("biz_code", code, f"no handler is registered for it (known: {known}); {hint}")
    defaults = handler or TaskHandler
    trigger = valid_trigger(task.trigger_text)
    return Schedule(
        code,
        num,
        valid_when(task.when),
        valid_json(task.biz_ext, settings.MAX_BIZ_EXT_BYTES),
        valid_queue(task.queue or defaults.queue),
        valid_priority(defaults.priority if task.priority is None else task.priority),
        None if trigger is None else str(trigger),
        valid_when(task.expires_at, "expires_at"),
        valid_once(once, trigger),
    )


def _mode(if_exists: IfExists | str) -> IfExists:
    try:
        return IfExists(if_exists)
    except ValueError:
        raise InvalidTask("if_exists", if_exists, f"must be one of {', '.join(IfExists)}") from None


def cancel_task(biz_code: str, biz_num: str, *, using: str | None = None) -> CancelResult:
    """Cancel the task of this identity.

    CANCELLED: it waited, and is gone; STOPPING: it runs, and will not be run again; MISSING: there is none.

    Raises:
        InvalidTask: no identity.
    """
    return cancel.cancel(database(using), *valid_identity(biz_code, biz_num))


def reschedule_task(biz_code: str, biz_num: str, when: When, *, using: str | None = None) -> bool:
    """Give the task of this identity a new time and its attempts anew, its data kept; False when there is none.

    Raises:
        InvalidTask: no identity, or a ``when`` that cannot be accepted.
    """
    alias = database(using)
    when = valid_when(when)
    found = reschedule.reschedule(alias, *valid_identity(biz_code, biz_num), when)
    wakeup.when_committed(alias, lambda: [wakeup.ANY] if wakeup.is_soon(when) else [])
    return found


def forget(biz_code: str, biz_num: str, *, using: str | None = None) -> bool:
    """Let the task of this identity, which was done once, be added with ``once`` again; False if it was not done.

    Raises:
        InvalidTask: no identity.
    """
    return successes.forget(database(using), *valid_identity(biz_code, biz_num))


def pause_task(biz_code: str, biz_num: str, *, using: str | None = None) -> bool:
    """Keep the task of this identity from being run until :func:`resume_task`; a run that goes on is let go on.

    False when there is none, or it is FAILED.

    Raises:
        InvalidTask: no identity.
    """
    return pause.pause(database(using), *valid_identity(biz_code, biz_num))


def resume_task(biz_code: str, biz_num: str, *, using: str | None = None) -> bool:
    """End a pause: a recurring task goes on with its next time, what was missed is not made up for.

    False when there is no pause to end.

    Raises:
        InvalidTask: no identity.
    """
    alias = database(using)
    found = pause.resume(alias, *valid_identity(biz_code, biz_num))
    wakeup.when_committed(alias)
    return found


def pause_queue(queue: str, *, using: str | None = None) -> bool:
    """Let no executor claim anything of this queue until :func:`resume_queue`; False if it was paused already.

    Executors hear of it within a poll interval. What they have claimed is run.

    Raises:
        InvalidTask: no name of a queue.
    """
    return paused_queues.pause_queue(database(using), valid_queue(queue))


def resume_queue(queue: str, *, using: str | None = None) -> bool:
    """End the pause of a queue; False if it was not paused.

    Raises:
        InvalidTask: no name of a queue.
    """
    alias = database(using)
    found = paused_queues.resume_queue(alias, valid_queue(queue))
    wakeup.when_committed(alias, lambda: [queue])
    return found


def delete_tasks(biz_code: str, biz_num: str, *, everything: bool = False, using: str | None = None) -> int:
    """Cancel every pending or failed task of this code whose number contains ``biz_num``, exactly compared; how many.

    Raises:
        InvalidTask: an empty fragment without ``everything=True``.
    """
    code, _ = valid_identity(biz_code, "any")
    if not isinstance(biz_num, str):
        raise InvalidTask("biz_num", biz_num, "must be a str")
    if not biz_num and not everything:
        raise InvalidTask(
            "biz_num", biz_num, "would delete every task of the code; say everything=True if that is meant"
        )
    return cancel.delete(database(using), code, biz_num)


def get_tasks_by_code(
    biz_code: str | None = None,
    biz_num: str | None = None,
    when: datetime | None = None,
    *,
    using: str | None = None,
) -> "QuerySet[Task]":
    """Pending tasks, earliest first: of a code, with a fragment of the number (whatever its case), at a time.

    ``when`` matches exactly if any task has exactly it, else all later ones match.
    """
    return finding.find_pending(database(using), biz_code, biz_num, when)


def get_runs(
    biz_code: str | None = None, biz_num: str | None = None, *, using: str | None = None
) -> "QuerySet[TaskRun]":
    """The history, newest first: of a code, with a fragment of the number (whatever its case)."""
    return finding.find_runs(database(using), biz_code, biz_num)


def start(**options: Any) -> None:
    """Claim and run tasks in threads of this process; returns at once.

    ``options`` are the fields of :class:`~django_delayed_tasks.executor.options.ExecutorOptions`.

    Raises:
        TaskException: this process has an executor already, or its name belongs to a live one.
    """
    from django_delayed_tasks.executor.process import in_process

    in_process.start(**options)


def shutdown(wait: bool = True) -> None:
    """End what :func:`start` began: nothing more is claimed, what has not started is released, runs may finish.

    With ``wait`` it returns when all is settled, or ``SHUTDOWN_TIMEOUT`` is over. Without an executor it does nothing.
    """
    from django_delayed_tasks.executor.process import in_process

    in_process.shutdown(wait)


def database(using: str | None) -> str:
    """The alias of the tasks' database."""
    return using or settings.DATABASE


scheduling.install(Task, add_task)
