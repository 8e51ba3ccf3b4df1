"""What stands where on a task's page."""

from collections.abc import Iterator
from typing import Any

from django.contrib.admin.utils import flatten
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.models import Task

IDENTITY = ("biz_code", "biz_num")
STATE = ("state", "due", "attempts")
ERROR = ("error_block",)
PROGRESS = ("progress_",)
SCHEDULE = ("when", "biz_ext", ("queue", "priority"))
SCHEDULE_SHOWN = ("when_", "data_block", ("queue", "priority"))
DEFERRED = ("deferred_when_", "deferred_block", ("deferred_queue_", "deferred_priority_"))
DETAILS = (("claim_at_", "executor_", "cancel_requested_"), ("rescues", "version"), ("created_", "updated_"))

READ_ONLY = (*IDENTITY, *STATE, *ERROR, *PROGRESS, *flatten(DEFERRED), *flatten(DETAILS), "when_", "data_block")


def adding() -> Any:
    """The sections of the page that adds a task."""
    return ((None, {"fields": (IDENTITY,)}), (_("Schedule"), {"fields": SCHEDULE}))


def changing(task: Task, may_change: bool) -> Any:
    """The sections of this task's page: what it does not have is left out."""
    return list(_sections(task, may_change))


def _sections(task: Task, may_change: bool) -> Iterator[Any]:
    yield None, {"fields": (IDENTITY, STATE)}
    if task.progress_at:
        yield None, {"fields": PROGRESS}
    if task.last_error:
        yield None, {"fields": ERROR}
    yield _("Schedule"), {"fields": SCHEDULE if may_change else SCHEDULE_SHOWN}
    if task.deferred_when:
        description = _("Arrived while the task runs; takes effect when the run ends.")
        yield _("Next schedule"), {"fields": DEFERRED, "description": description}
    yield _("Details"), {"fields": DETAILS}
