"""The sections of a task's page."""

from collections.abc import Iterator
from typing import Any

from django.contrib.admin.utils import flatten
from django.utils.html import format_html_join
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus

IDENTITY = ("biz_code", "biz_num")
STATE = ("badge", "due", "attempts")
SCHEDULE = ("when", "biz_ext", ("queue", "priority"), "expires_at")
SCHEDULE_SHOWN = ("schedule_time", "data_block", ("queue", "priority", "expires_at_"))
RECURRENCE = ("trigger_text",)
RECURRENCE_SHOWN = ("outlook_",)
DEFERRED = (
    "deferred_when_", "deferred_block", ("deferred_queue_", "deferred_priority_", "deferred_expires_"),
    "deferred_trigger_",
)  # fmt: skip
DETAILS = (
    ("executor_", "cancel_requested_"), ("rescues", "version", "once_", "by_handler_"), ("created_", "updated_"),
)  # fmt: skip

READ_ONLY = (
    *IDENTITY, *STATE, *flatten(DEFERRED), *flatten(DETAILS),
    "claim_at_", "failed_at_", "schedule_time", "data_block", "expires_at_", *RECURRENCE_SHOWN,
)  # fmt: skip

BY_HANDLER = _(
    "The handler of this code declares this trigger. If you save another trigger or expiry here, the declaration no"
    " longer changes this task, until the task is cancelled. A change of only the queue or the priority lasts until"
    " the next executor starts."
)

FAILED = _("If you save another trigger or expiry, this failed task becomes pending again without a retry.")


def adding() -> Any:
    """Return the sections of the page that adds a task."""
    schedule = (*SCHEDULE, "once_only")
    return (
        (None, {"fields": (IDENTITY,)}),
        (_("Schedule"), {"fields": schedule}),
        (_("Recurrence"), {"fields": RECURRENCE}),
    )


def changing(task: Task, may_change: bool) -> Any:
    """Yield the sections of this task's page; those without values are left out."""
    return list(_sections(task, may_change))


def _sections(task: Task, may_change: bool) -> Iterator[Any]:
    yield None, {"fields": (IDENTITY, STATE)}
    yield _("Schedule"), {"fields": SCHEDULE if may_change else SCHEDULE_SHOWN}
    if may_change:
        yield _("Recurrence"), {"fields": RECURRENCE, "description": _said_of(task)}
    elif task.trigger_text is not None:
        yield _("Recurrence"), {"fields": RECURRENCE_SHOWN}
    if task.deferred_when:
        description = _("Arrived while the task runs; takes effect when the run ends.")
        yield _("Next schedule"), {"fields": DEFERRED, "description": description}
    first, *more = DETAILS
    claim_at = "failed_at_" if task.status == TaskStatus.FAILED else "claim_at_"
    yield _("Details"), {"fields": ((claim_at, *first), *more)}


def _said_of(task: Task) -> Any:
    """Return notes on the other effects that saving another trigger has on this task."""
    notes = [BY_HANDLER] if task.by_handler else []
    if task.status == TaskStatus.FAILED:
        notes.append(FAILED)
    return format_html_join(" ", "{}", ((note,) for note in notes))
