"""The list of tasks, and one task's page."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Right
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.admin import columns, seen
from django_delayed_tasks.admin.base import DatabaseAdmin, database_now
from django_delayed_tasks.admin.changelist import BoundedChangeList
from django_delayed_tasks.admin.filters import CodeFilter, DueFilter, QueueFilter
from django_delayed_tasks.admin.searching import containing, is_searching
from django_delayed_tasks.admin.steering import SteeringActions
from django_delayed_tasks.admin.task_pages import TaskPages
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import TaskStatus

STATE = ("state", "claim_at_", "due", "attempts", "rescues", "executor", "cancel_requested_", "version")
DEFERRED = ("deferred_when_", "deferred_queue", "deferred_priority", "deferred_block")


class TaskChangeList(BoundedChangeList):
    """Without data and tracebacks, of which only the end is read; with the executors' names."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> "QuerySet[Any]":
        tasks = super().get_queryset(request, exclude_parameters)
        return tasks.defer("biz_ext", "deferred_biz_ext", "last_error").annotate(error_end=Right("last_error", 500))

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        ids = {task.executor for task in self.result_list} - {None}
        executors = Executor.objects.using(settings.DATABASE).in_bulk(ids) if ids else {}
        for task in self.result_list:
            task.executor_name = executors[task.executor].name if task.executor in executors else None


@admin.register(Task)
class TaskAdmin(SteeringActions, TaskPages, DatabaseAdmin[Task]):
    """In the order of the claim index; by number when a code is chosen or numbers are searched.

    Every order but those that a person clicks on is the order of an index, so that a page costs a page.
    """

    list_display = (
        "biz_num", "biz_code", "state", "when_", "claim_at_", "due", "attempts", "queue", "priority", "executor_",
        "failure",
    )  # fmt: skip
    list_filter = ("status", DueFilter, CodeFilter, QueueFilter)
    search_fields = ("biz_num",)
    search_help_text = _("Part of the number.")
    sortable_by = ("biz_num", "when_", "claim_at_")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return TaskChangeList

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        if is_searching(request) or request.GET.get(CodeFilter.parameter_name):
            return ("biz_code", "biz_num")
        return ("status", "queue", "priority", "claim_at", "id")

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[Task]", search_term: str
    ) -> tuple["QuerySet[Task]", bool]:
        return containing(queryset, search_term) if search_term.strip() else queryset, False

    @admin.display(description=_("select"))
    def action_checkbox(self, obj: Task) -> SafeString:
        return format_html(
            '{}<input type="hidden" name="{}" value="{}">', super().action_checkbox(obj), seen.NAME, seen.mark(obj)
        )

    @admin.display(description=_("state"))
    def state(self, task: Task) -> SafeString:
        status = TaskStatus(task.status)
        if task.cancel_requested_at:
            return columns.badge(_("stopping"), "stopping")
        return columns.badge(status.label, status.name.lower())

    @admin.display(description=_("when"), ordering="when")
    def when_(self, task: Task) -> str | None:
        return columns.moment_text(task.when)

    @admin.display(description=_("claimable from"), ordering="claim_at")
    def claim_at_(self, task: Task) -> str | None:
        return columns.moment_text(task.claim_at)

    @admin.display(description=_("due"))
    def due(self, task: Task) -> str | None:
        if task.status != TaskStatus.PENDING:
            return None
        return columns.distance_text(task.claim_at, database_now(task))

    @admin.display(description=_("executor"))
    def executor_(self, task: Any) -> str | None:
        return task.executor_name or task.executor

    @admin.display(description=_("error"))
    def failure(self, task: Any) -> str | None:
        return columns.last_line(task.error_end)
