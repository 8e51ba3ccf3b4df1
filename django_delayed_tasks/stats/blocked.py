"""What a blocked task, or one whose pool has no free resource, waits for, as a text for people."""

from contextlib import suppress
from datetime import datetime

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from django_delayed_tasks.handlers import find
from django_delayed_tasks.models import Resource, Task
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


def pool_text(task: Task, now: datetime) -> str:
    """Return that a due task waits for a resource of its handler's pool, "" if one is free or it needs none."""
    handler = find(task.biz_code)
    if task.status != TaskStatus.PENDING or task.claim_at > now or not handler or not handler.pool:
        return ""
    is_free, is_leased = Q(enabled=True, busy_before__lte=now), Q(enabled=True, busy_before__gt=now)
    counts = Resource.objects.using(task._state.db).filter(pool=handler.pool).aggregate(
        free=Count("pk", filter=is_free), leased=Count("pk", filter=is_leased), all=Count("pk"),
    )  # fmt: skip
    disabled = counts["all"] - counts["free"] - counts["leased"]
    text = _("waits for a resource of the pool %(pool)r: %(free)d free, %(leased)d leased, %(disabled)d disabled")
    return "" if counts["free"] else text % {**counts, "pool": handler.pool, "disabled": disabled}
