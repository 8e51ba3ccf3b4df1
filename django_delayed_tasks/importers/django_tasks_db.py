"""Tasks of django-tasks-db that wait."""

from typing import Any

from django.utils.translation import gettext as _
from django_tasks_db.models import DBTaskResult

from django_delayed_tasks.importers.moving import Move, NotMoved, checked


def rows() -> list[Any]:
    """Return the tasks that wait or seem to run; one that has ended is a result, and stays."""
    return [*DBTaskResult.objects.filter(status__in=("READY", "RUNNING"))]


def name_of(row: Any) -> str:
    """Return the row in words."""
    return f"{row.pk} ({row.task_path})"


def move_of(row: Any) -> Move:
    """Return the task that the row becomes.

    Raises:
        NotMoved: it is being run, or its function belongs to another backend.
    """
    if row.status != "READY":
        raise NotMoved(_("a worker is running it, or was killed while it did: its function may have had effects"))
    task = checked(row.task, row.task_path)
    return Move(task.using(biz_num=str(row.pk)), row.args_kwargs["args"], row.args_kwargs["kwargs"])
