"""What a blocked task waits for, as a text for people."""

from contextlib import suppress

from django.utils.translation import gettext as _

from django_delayed_tasks.handlers import find
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.sql.lanes import is_blocked


def blocked_text(task: Task) -> str:
    """Return what the task waits for, "" if it is not blocked."""
    if task.status != TaskStatus.PENDING or not is_blocked(task.lane):
        return ""
    text = _("blocked: a task of its key %(key)s is running, or the key's rate allows no start yet")
    return text % {"key": _key_of(task)}


def _key_of(task: Task) -> str:
    """Return the concurrency key of a task, "" if it cannot be told here."""
    handler = find(task.biz_code)
    with suppress(Exception):
        return repr(handler.concurrency_key(task)) if handler else ""
    return ""
