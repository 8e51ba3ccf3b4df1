"""The read-only pages of the history."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Right
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.admin.lists import columns
from django_delayed_tasks.admin.lists.base import ReadOnlyAdmin
from django_delayed_tasks.admin.lists.changelist import NamingChangeList
from django_delayed_tasks.admin.lists.columns import column, in_card, json_of, lateness, moment
from django_delayed_tasks.admin.lists.filters import (
    FinishedFilter,
    OutcomeFilter,
    RunCodeFilter,
    containing,
    is_searching,
    recent,
)
from django_delayed_tasks.admin.lists.tracebacks import folded
from django_delayed_tasks.admin.reenqueue import ReenqueueMixin
from django_delayed_tasks.conf import settings
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.settling.settlement import WENT_WELL


class RunChangeList(NamingChangeList):
    """A list that does not read results, and only the end of tracebacks."""

    def light(self, rows: "QuerySet[Any]") -> "QuerySet[Any]":
        light: QuerySet[Any] = rows.defer("result", "error", "biz_ext").annotate(error_end=Right("error", 500))
        return light


@admin.register(TaskRun)
class TaskRunAdmin(ReenqueueMixin, ReadOnlyAdmin[TaskRun]):
    """The list of runs, newest first. Conditions that no index serves are applied to the latest runs only."""

    list_display = (
        "number",
        "code",
        "ended",
        "finished_",
        "late",
        "took",
        "executor_",
    )
    list_filter = (OutcomeFilter, FinishedFilter, RunCodeFilter)
    search_fields = ("biz_num",)
    search_help_text = _("Part of the number, among the latest 100,000 runs; all runs of a code if one is chosen.")
    sortable_by = ("id",)
    lookups = ("id", "biz_code", "biz_num", "when", "outcome", "started", "finished", "executor", "task_id")
    fieldsets = (
        (None, {"fields": (("biz_code", "biz_num"), ("outcome_badge", "attempt", "when_"))}),
        (_("Result"), {"fields": ("result_block", "exception", "error_block", "data_block")}),
        (_("Details"), {"fields": (("started_", "finished_"), ("late", "took"), ("executor_", "task_", "version"))}),
    )

    code = column(_("code"), lambda run: columns.breakable(run.biz_code))
    outcome_badge = column(_("outcome"), lambda run: columns.member_badge(RunOutcome, run.outcome))
    when_ = moment(_("when"), "when")
    started_ = moment(_("started"), "started")
    finished_ = moment(_("finished"), "finished")
    took = in_card(_("took"), lambda run: _short(run.finished - run.started if run.started else None))
    late = in_card(_("late"), lambda run: _short(lateness(run)))
    number = column(_("number"), columns.number_and_error)
    result_block = json_of(_("result"), "result")
    error_block = column(_("error"), lambda run: folded(run.error))

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return RunChangeList

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        # The index of a code's runs is by number; without a code, only the latest runs are searched, by primary key.
        by_number = is_searching(request) and request.GET.get(RunCodeFilter.parameter_name)
        return ("-biz_num", "-id") if by_number else ("-id",)

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[TaskRun]", search_term: str
    ) -> tuple["QuerySet[TaskRun]", bool]:
        if not search_term.strip():
            return queryset, False
        among = queryset if request.GET.get(RunCodeFilter.parameter_name) else recent(queryset)
        return containing(among, search_term), False

    @admin.display(description=_("outcome"))
    def ended(self, run: TaskRun) -> SafeString | str:
        """Return the outcome, and below it which attempt it was, unless it was the first."""
        attempt = gettext("attempt %d") % run.attempt if run.attempt > 1 else ""
        return columns.two_lines(self.outcome_badge(run), attempt)

    @admin.display(description=_("executor"))
    def executor_(self, run: TaskRun) -> SafeString | str:
        return columns.executor_link(self.admin_site.name, run)

    @admin.display(description=_("task"))
    def task_(self, run: TaskRun) -> SafeString | str:
        if not Task.objects.using(settings.DATABASE).filter(pk=run.task_id).exists():
            return str(run.task_id)
        address = reverse(f"{self.admin_site.name}:django_delayed_tasks_task_change", args=[run.task_id])
        return format_html('<a href="{}">{}</a>', address, run.task_id)

    @admin.display(description=_("data"))
    def data_block(self, run: TaskRun) -> SafeString | str:
        return columns.json_block(run.biz_ext) if run.biz_ext is not None else _without_data(run)


def _short(duration: timedelta | None) -> str:
    return columns.EMPTY if duration is None else columns.short_text(duration)


def _without_data(run: TaskRun) -> str:
    """Return the text to show if the history has no data of this run: there was none, or it was not kept."""
    if run.outcome == RunOutcome.CANCELLED and run.started is None:  # its data is always kept
        return columns.EMPTY
    handler = get_task_handlers().get(run.biz_code)
    keeps = handler.keep_data if handler else None
    if keeps is False or (keeps is None and run.outcome in (*WENT_WELL, RunOutcome.LOST)):
        return gettext("not kept (keep_data)")
    return gettext("none, or not kept (keep_data)")
