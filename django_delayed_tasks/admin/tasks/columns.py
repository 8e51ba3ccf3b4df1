"""The display of a task's values, in the list and on its page."""

from typing import Any

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.admin.lists import columns
from django_delayed_tasks.admin.lists.base import database_now
from django_delayed_tasks.admin.lists.columns import column, in_card, json_of, moment
from django_delayed_tasks.admin.triggers import outlook
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats.plans import plan_of
from django_delayed_tasks.stats.why import blocked_text


def _percent(fraction: float) -> int:
    # Rounded down: a run in progress must not show 100.
    return int(fraction * 100)


class TaskColumns:
    """Display methods; the one for an annotation of the list (``error_end``) works in the list only."""

    code = column(_("code"), lambda task: columns.breakable(task.biz_code))
    schedule_time = moment(_("when"), "when")
    claim_at_ = moment(_("claimable from"), "claim_at")
    failed_at_ = moment(_("failed at"), "claim_at")
    number = column(_("number"), columns.number_and_error, ordering="biz_num")
    attempts_ = in_card(_("attempts"), lambda task: task.attempts)
    queue_ = in_card(_("queue"), lambda task: columns.named(task.queue))
    priority_ = in_card(_("priority"), lambda task: task.priority)
    data_block = json_of(_("data"), "biz_ext")
    cancel_requested_ = moment(_("cancel requested"), "cancel_requested_at")
    deferred_when_ = moment(_("when"), "deferred_when")
    expires_at_ = moment(_("expires"), "expires_at")
    once_ = column(_("once only"), lambda task: _("yes") if task.once else _("no"))
    by_handler_ = column(_("declared in code"), lambda task: _("yes") if task.by_handler else _("no"))
    deferred_trigger_ = column(_("trigger"), lambda task: task.deferred_trigger_text or columns.EMPTY)
    deferred_expires_ = moment(_("expires"), "deferred_expires_at")
    deferred_queue_ = column(_("queue"), lambda task: task.deferred_queue)
    deferred_priority_ = column(_("priority"), lambda task: task.deferred_priority)
    created_ = moment(_("created"), "create_time")
    updated_ = moment(_("updated"), "update_time")

    @admin.display(description=_("state"))
    def badge(self, task: Task) -> SafeString:
        if task.cancel_requested_at:
            return columns.badge(_("stopping"), "stopping")
        if task.pause_requested:
            return columns.badge(_("pausing"), "paused")
        return columns.member_badge(TaskStatus, task.status)

    @admin.display(description=_("state"))
    def state(self, task: Task) -> SafeString:
        """Return the state, and of a running task how far it is."""
        if task.progress_fraction is None:
            return self.badge(task)
        return format_html("{} {} %", self.badge(task), _percent(task.progress_fraction))

    @admin.display(description=_("progress"))
    def progress_(self, task: Task) -> str:
        if task.progress_fraction is None:
            return columns.EMPTY
        reported = columns.moment_text(task.progress_at) if task.progress_at else ""
        return " · ".join(filter(None, [f"{_percent(task.progress_fraction)} %", task.progress_note, reported]))

    @admin.display(description=_("when"), ordering="claim_at")
    def when_(self, task: Task) -> SafeString | str:
        """Return when it can be claimed, or failed, or was to run; and how far away that is."""
        now = database_now(task)
        if task.status == TaskStatus.FAILED:
            ago = str(_("failed %s ago")) % columns.duration_text(now - task.claim_at)
            return columns.two_lines(columns.moment_text(task.claim_at), ago)
        if task.status == TaskStatus.PENDING:
            is_late = task.claim_at <= now
            distance = columns.distance_text(task.claim_at, now)
            return columns.two_lines(columns.moment_text(task.claim_at), distance, "late" if is_late else "quiet")
        return columns.moment_text(task.when)

    @admin.display(description=_("due"))
    def due(self, task: Task) -> str:
        if task.status != TaskStatus.PENDING:
            return columns.EMPTY
        return blocked_text(task) or columns.distance_text(task.claim_at, database_now(task))

    @admin.display(description=_("executor"))
    def executor_(self, task: Task) -> SafeString:
        text = columns.executor_text(task)
        return columns.labelled(_("executor"), text if text == columns.EMPTY else columns.named(text))

    @admin.display(description=_("trigger"))
    def trigger_(self, task: Task) -> SafeString | str:
        text = task.trigger_text  # the stored text, which may not be a valid trigger
        if text is None:
            return columns.labelled(_("trigger"), columns.EMPTY)
        return format_html('<code title="{}">{}</code>', text, columns.cut(text, 60))

    @admin.display(description=_("trigger"))
    def outlook_(self, task: Task) -> SafeString | str:
        plan = plan_of(task, database_now(task))
        if plan is None:
            return columns.EMPTY
        return format_html("{}{}", columns.preformatted(plan.text), outlook.shown(plan))

    @admin.display(description=_("data"))
    def deferred_block(self, task: Task) -> Any:
        if task.deferred_keeps_ext:
            return _("set by this run")
        return columns.json_block(task.deferred_biz_ext)
