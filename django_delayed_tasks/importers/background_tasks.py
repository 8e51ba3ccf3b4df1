"""Tasks of django-background-tasks that wait."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from background_task.models import Task
from background_task.settings import app_settings
from django.utils import timezone
from django.utils.translation import gettext as _

from django_delayed_tasks import Interval
from django_delayed_tasks.importers.moving import Move, NotMoved, function_of

PRIORITIES = (-100, 100)
"""The lowest and the highest priority of a task, as the Tasks framework has them."""


def rows() -> list[Any]:
    """Return all rows of the table of tasks; completed tasks are in another table."""
    return [*Task.objects.all()]


def name_of(row: Any) -> str:
    """Return the row in words."""
    return f"{row.pk} ({row})"


def move_of(row: Any) -> Move:
    """Return the task that the row becomes.

    Raises:
        NotMoved: it has failed for good, or a process has it.
        ValueError: its arguments are no JSON.
    """
    if row.failed_at:
        raise NotMoved(_("it has failed for good"))
    if not Task.objects.unlocked(timezone.now()).filter(pk=row.pk).exists():
        text = _("process_tasks is running it, or was killed while it did: it is free %(count)s s after %(moment)s")
        raise NotMoved(text % {"count": app_settings.BACKGROUND_TASK_MAX_RUN_TIME, "moment": row.locked_at})
    args, kwargs = row.params()
    priority = _priority(row)
    task = function_of(row.task_name).using(
        run_after=row.run_at,
        priority=priority,
        queue_name=row.queue or None,
        biz_num=f"background-task-{row.pk}",
        trigger=_trigger(row),
    )
    return Move(task, args, kwargs, list(_changes(row, priority)))


def _priority(row: Any) -> int:
    """Return the priority: which end of the scale is first there is a setting."""
    wanted: int = row.priority if app_settings.BACKGROUND_TASK_PRIORITY_ORDERING else -row.priority
    return max(PRIORITIES[0], min(wanted, PRIORITIES[-1]))


def _trigger(row: Any) -> Interval | None:
    """Return when it repeats, if it does.

    django-background-tasks makes the next time at the end of a run, unless ``repeat_until`` has passed by then: so the
    last time is the first one that is not before it.
    """
    if not row.is_repeating_task() or (row.repeat_until and row.repeat_until <= max(row.run_at, timezone.now())):
        return None
    return Interval(seconds=row.repeat, end=row.repeat_until and _last_time(row))


def _last_time(row: Any) -> datetime:
    period = timedelta(seconds=row.repeat)
    last: datetime = row.run_at - (row.run_at - row.repeat_until) // period * period
    return last


def _changes(row: Any, priority: int) -> Iterator[str]:
    if abs(row.priority) != abs(priority):
        yield _("its priority %(old)s becomes %(new)s") % {"old": row.priority, "new": priority}
    if row.attempts:
        yield _("its attempts are counted from zero, and were %s") % row.attempts
    if row.creator_object_id or row.verbose_name:
        yield _("its creator and its verbose name are not kept")
