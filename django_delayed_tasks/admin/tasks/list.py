"""The list of tasks, and one task's page."""

from collections.abc import Callable
from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ORDER_VAR
from django.db.models import QuerySet
from django.db.models.functions import Right
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from django_delayed_tasks.admin.actions import verbs
from django_delayed_tasks.admin.actions.row_actions import RowActions
from django_delayed_tasks.admin.lists.base import DatabaseAdmin
from django_delayed_tasks.admin.lists.changelist import NamingChangeList
from django_delayed_tasks.admin.lists.filters import (
    RECENT,
    CodeFilter,
    DueFilter,
    QueueFilter,
    StatusFilter,
    containing,
    is_searching,
    recent,
    snapshot_of,
)
from django_delayed_tasks.admin.lists.segments import Order
from django_delayed_tasks.admin.tasks.columns import TaskColumns
from django_delayed_tasks.admin.tasks.errors import ErrorFilter, ErrorPages
from django_delayed_tasks.admin.tasks.page import TaskPages
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.waiting import COUNTED

MAX_IN_ORDER: Final = 5_000
"""The tasks that the order of segments reaches; with filters, fewer tasks remain to be reached."""
FAILED: Final = str(TaskStatus.FAILED.value)

EMPTY_IF: Final[dict[str, Callable[[Any], bool]]] = {
    "attempts_": lambda task: not task.attempts,
    "executor_": lambda task: not task.executor,
    "trigger_": lambda task: task.trigger_text is None,
    "priority_": lambda task: not task.priority,
}
"""Columns that are left out if they are empty on the whole page."""


class TaskChangeList(NamingChangeList):
    """A list that does not read data, and only the end of tracebacks."""

    def light(self, rows: "QuerySet[Any]") -> "QuerySet[Any]":
        texts = ("biz_ext", "deferred_biz_ext", "last_error")
        light: QuerySet[Any] = rows.defer(*texts).annotate(error_end=Right("last_error", 500))
        return light

    def keys(self, request: HttpRequest, bottom: int, count: int) -> list[int]:
        """Return the keys of a page in the order of segments, unless an order, a code or a number was asked for."""
        code, status = self.params.get(CodeFilter.parameter_name), self.params.get("status__exact")
        if ORDER_VAR in self.params or self.query or (code and status != FAILED):
            return super().keys(request, bottom, count)
        if bottom >= MAX_IN_ORDER:
            raise IncorrectLookupParameters
        agenda, queue = snapshot_of(request).agenda, self.params.get(QueueFilter.parameter_name)
        found = Order(self.queryset, self._statuses(), agenda, queue).keys(bottom + count)
        return super().keys(request, bottom, count) if found is None else found[bottom:]

    def _statuses(self) -> frozenset[int]:
        status = str(self.params.get("status__exact", ""))
        if status in map(str, TaskStatus.values):
            return frozenset({int(status)})
        is_about_due = DueFilter.parameter_name in self.params
        return frozenset({TaskStatus.PENDING} if is_about_due else TaskStatus.values)

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        # They come after the columns that can be sorted, whose positions are in addresses.
        empty = {name for name, is_empty in EMPTY_IF.items() if all(map(is_empty, self.result_list))}
        self.list_display = [name for name in self.list_display if name not in empty]


def are_many(request: HttpRequest) -> bool:
    """Return whether there are more tasks, by the latest survey, than a page may read: to sort or to search them."""
    return sum(snapshot_of(request).totals.values()) > RECENT


class TaskActions(RowActions):
    """The actions of the list of tasks, which are also the buttons of a task's page."""

    actions = ("run_now", "postpone", "pause", "resume", "retry_failed", "cancel")
    needed = ("biz_code", "biz_num", "version")
    changed_text = ngettext_lazy("%(shown)s task was %(done)s.", "%(shown)s tasks were %(done)s.", "count")
    unchanged_text = ngettext_lazy(
        "%(shown)s task was left unchanged: it changed since the page was loaded, or its state forbids this.",
        "%(shown)s tasks were left unchanged: changed since the page was loaded, or in the wrong state.",
        "count",
    )

    run_now = verbs.RUN_NOW.method(_("Run now"), "change")
    postpone = verbs.POSTPONE.method(_("Postpone by an hour"), "change")
    retry_failed = verbs.RETRY_FAILED.method(_("Retry failed"), "change")
    pause = verbs.PAUSE.method(_("Pause"), "change")
    resume = verbs.RESUME.method(_("Resume"), "change")
    cancel = verbs.CANCEL.method(_("Cancel"), "delete")


@admin.register(Task)
class TaskAdmin(TaskActions, ErrorPages, TaskPages, TaskColumns, DatabaseAdmin[Task]):
    """The list of tasks in the order of the claim index, or by number if a code is chosen or numbers are searched.

    The order is that of an index, so that the cost of a page does not depend on the size of the table. With many tasks,
    no other order is offered, and only the tasks added last are searched.
    """

    list_display = (
        "number", "code", "state", "when_", "queue_", "attempts_", "executor_", "trigger_", "priority_",
    )  # fmt: skip
    list_filter = (("status", StatusFilter), DueFilter, CodeFilter, QueueFilter, ErrorFilter)
    search_fields = ("biz_num",)
    search_help_text = _("A whole number, or a part; if there are many tasks, a part is found in the last ones only.")
    sortable_by = ("number", "when_")
    lookups = ("id", "biz_code", "biz_num", "when", "status", "queue", "priority", "claim_at", "executor")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return TaskChangeList

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        # A column with only one value is left out: with it, MariaDB would sort instead of following the index.
        if request.GET.get(CodeFilter.parameter_name):
            return ("biz_num",)
        if is_searching(request):
            return ("-id",) if are_many(request) else ("biz_code", "biz_num")
        if request.GET.get(QueueFilter.parameter_name):
            return ("status", "priority", "claim_at", "id")
        return ("status", "lane", "queue", "priority", "claim_at", "id")

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[Task]", search_term: str
    ) -> tuple["QuerySet[Task]", bool]:
        if not search_term.strip():
            return queryset, False
        if are_many(request) and not request.GET.get(CodeFilter.parameter_name):
            numbered = queryset.filter(biz_code__in=[*get_task_handlers()], biz_num=search_term.strip())
            if keys := list(numbered.order_by().values_list("pk", flat=True)[:COUNTED]):
                return queryset.filter(pk__in=keys), False
            queryset = recent(queryset)
        return containing(queryset, search_term), False

    def get_sortable_by(self, request: HttpRequest) -> Any:
        return () if are_many(request) else self.sortable_by

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> Any:
        # Django 6.1 passes a location. Deleting is replaced by the action that cancels.
        where = {} if action_location is None else {"action_location": action_location}
        actions = super().get_actions(request, **where)
        actions.pop("delete_selected", None)
        return actions
