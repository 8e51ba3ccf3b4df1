"""The tasks that wait in each queue of the tasks' database, read as ``store/claiming/waiting.py`` does."""

from typing import Any, Final

from django.db.models import Q
from django.http import HttpRequest

from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats.snapshot import Snapshot
from django_delayed_tasks.store.claiming import waiting
from django_delayed_tasks.store.claiming.agenda import Level
from django_delayed_tasks.store.sql.lanes import BLOCKED

OTHERS: Final = [status for status in TaskStatus if status != TaskStatus.PENDING]


def snapshot_of(request: HttpRequest) -> Snapshot:
    """Return the request's snapshot: the filters, the order and the page of a list read each thing once."""
    kept: Any = request
    if not hasattr(kept, "delayed_tasks_snapshot"):
        kept.delayed_tasks_snapshot = Snapshot(settings.DATABASE)
    found: Snapshot = kept.delayed_tasks_snapshot
    return found


def range_of(level: Level) -> Q:
    """Return the condition for the pending tasks of this level, as one range of the claim index."""
    lane = Q(lane__gte=BLOCKED) if level.lane == BLOCKED else Q(lane=level.lane)
    return Q(status=TaskStatus.PENDING, queue=level.queue, priority=level.priority) & lane


def lanes_in_use() -> set[str]:
    """Return the lanes of all tasks, whatever their status; "" is always among them."""
    others = Task.objects.using(settings.DATABASE).filter(status__in=OTHERS, lane__gt="").order_by()
    return {"", *waiting.pending_lanes(settings.DATABASE), *others.values_list("lane", flat=True).distinct()}
