"""The facade, continued: the functions that change, or show, many tasks."""

from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.db.models import QuerySet

from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.acceptance import known_code
from django_delayed_tasks.store.claiming.preview import PlannedRun, planned_runs
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.schedules import cancel, edit, recurrence, reschedule
from django_delayed_tasks.store.schedules import find as finding
from django_delayed_tasks.store.schedules.edit import change_each
from django_delayed_tasks.store.validation import valid_choice, valid_code, valid_moment, valid_offset

__all__ = ["cancel_tasks", "preview", "reschedule_tasks", "retry_tasks"]


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

    The filters are those of ``get_tasks_by_code``: a part of the number, compared without regard to case, and
    ``due_after <= task.when < due_before``; tasks in all states are selected. This takes a transaction for each 500
    tasks, unless the caller has one open; a task that changes meanwhile, because it is claimed, is looked at again.

    Raises:
        InvalidTask: a value cannot be searched for; or the filters select every task of the code, and ``everything``
            is not True.
        UnknownCode: neither a handler nor a row has this ``biz_code``.
    """
    tasks = _selected(using, biz_code, fragment, due_before, due_after, everything)
    return change_each(tasks, cancel.cancel_seen)


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
    passed. The filters, transactions and errors are those of :func:`cancel_tasks`.
    """
    offset = valid_offset(by, "by")
    tasks = _selected(using, biz_code, fragment, due_before, due_after, everything)
    changed = change_each(tasks, partial(reschedule.reschedule_seen, by=offset))
    wakeup.when_committed(tasks.db)
    return changed


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
    transactions and the errors are those of :func:`cancel_tasks`.
    """
    tasks = _selected(using, biz_code, fragment, due_before, due_after, everything, failed_since)
    changed = change_each(finding.find_failed(tasks, failed_since), edit.retry_failed)
    wakeup.when_committed(tasks.db)
    return changed


def _selected(
    using: str | None,
    biz_code: str,
    fragment: str | UUID | None,
    due_before: datetime | None,
    due_after: datetime | None,
    everything: bool,
    failed_since: datetime | None = None,
) -> "QuerySet[Task]":
    alias = using or settings.DATABASE
    code = valid_code(biz_code)
    part = valid_choice(fragment, (due_before, due_after, failed_since), everything)
    return finding.find_all(alias, known_code(alias, code), part, due_before, due_after)


def preview(
    until: datetime | timedelta, *, limit: int = 100, biz_code: str | None = None, using: str | None = None
) -> list[PlannedRun]:
    """Return the runs that are due until a moment, the earliest first, without running them.

    ``until`` is an aware datetime, or a timedelta from now. At most ``limit`` runs are returned, those of one code if
    it is given. A recurring task appears once for each of its times. Paused, failed and running tasks are left out, and
    so are tasks in paused queues.

    Raises:
        InvalidTask: a value is not accepted.
        UnknownCode: neither a handler nor a row has this ``biz_code``.
    """
    alias = using or settings.DATABASE
    if not isinstance(limit, int) or limit < 1:
        raise InvalidTask("limit", limit, "must be an int of at least 1")
    moment = recurrence.read_now(alias) + valid_offset(until, "until") if isinstance(until, timedelta) else until
    code = None if biz_code is None else known_code(alias, biz_code)
    return planned_runs(alias, valid_moment(moment, "until"), limit, code)
