"""Pausing and resuming tasks, each in a transaction that checks that it is in the version shown."""

from collections.abc import Callable, Collection

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.schedules import pause
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.store.sql.tables import TASK
from django_delayed_tasks.store.sql.transactions import atomically

Verb = Callable[[str, str, str], bool]
Fits = Callable[[Task], bool]


def pause_all(alias: str, seen: Collection[Claim]) -> list[int]:
    """Pause the tasks that are still in the version shown, running ones after their run; return their ids."""
    return [claim[0] for claim in seen if _on_seen(alias, claim, _can_pause, pause.pause)]


def resume_all(alias: str, seen: Collection[Claim]) -> list[int]:
    """Resume the tasks that are paused and still in the version shown; return their ids.

    A task with an invalid trigger, which has no next time, is left unchanged.
    """
    return [claim[0] for claim in seen if _on_seen(alias, claim, _can_resume, _resume)]


def _can_pause(task: Task) -> bool:
    return task.status == TaskStatus.PENDING or (task.status == TaskStatus.RUNNING and not task.pause_requested)


def _can_resume(task: Task) -> bool:
    return task.status == TaskStatus.PAUSED or bool(task.pause_requested)


def _resume(alias: str, biz_code: str, biz_num: str) -> bool:
    try:
        return pause.resume(alias, biz_code, biz_num)
    except InvalidTrigger:
        return False


def _on_seen(alias: str, seen: Claim, fits: Fits, verb: Verb) -> bool:
    def work(cursor: CursorWrapper) -> bool:
        dialect_of(connections[alias]).begin_writing(cursor, TASK)
        rows = Task.objects.using(alias).select_for_update().only("biz_code", "biz_num", "status", "pause_requested")
        task = rows.filter(pk=seen[0], version=seen[1]).first()
        return task is not None and fits(task) and verb(alias, task.biz_code, task.biz_num)

    return atomically(alias, work)
