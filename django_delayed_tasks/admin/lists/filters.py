"""Filters whose choices are cheap to find and whose conditions are served by the indexes."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, Final, TypeVar

from django.contrib.admin import ChoicesFieldListFilter, ModelAdmin, SimpleListFilter
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import Model, Q, QuerySet
from django.db.models.functions import Lower
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.admin.lists.columns import number_text
from django_delayed_tasks.conf import settings
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.stats.backlogs import MAX_QUEUES, StatusCount, count_statuses
from django_delayed_tasks.stats.snapshot import Snapshot
from django_delayed_tasks.store.claiming import waiting
from django_delayed_tasks.store.claiming.agenda import Agenda, Level
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.store.sql.lanes import BLOCKED

RECENT: Final = 100_000
"""The number of rows that a page may look at without an index: to apply a condition, to sort them or to count them."""

MAX_LEVELS: Final = 50
"""With more levels of queue and priority than this, a condition for each, or reading each, costs more than it saves."""

SLACK: Final = timedelta(minutes=5)
"""The time by which a run may have been written later than its neighbors."""

FOLDED: Final = "admin/django_delayed_tasks/filter.html"
"""The template of filters that are folded into a bar above the list."""

Choices = Iterator[tuple[str, Any]]


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
    others = [status for status in TaskStatus if status != TaskStatus.PENDING]
    rows = Task.objects.using(settings.DATABASE).filter(status__in=others, lane__gt="").order_by()
    return {"", *waiting.pending_lanes(settings.DATABASE), *rows.values_list("lane", flat=True).distinct()}


class CodeFilter(SimpleListFilter):
    """Filters by the codes that have a handler in this process, and the code that the URL names."""

    title = _("code")
    parameter_name = "code"
    template = FOLDED

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Any]") -> Choices:
        asked = request.GET.getlist(self.parameter_name)
        yield from ((code, code) for code in sorted({*get_task_handlers(), *asked} - {""}))

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        return queryset.filter(biz_code=self.value()) if self.value() else queryset


class RunCodeFilter(CodeFilter):
    """Filters the history by code: among the latest runs, or all runs of the code if its numbers are searched."""

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        runs = super().queryset(request, queryset)
        return recent(runs) if self.value() and not is_searching(request) else runs


class QueueFilter(SimpleListFilter):
    """Filters by the queues that handlers name or pending tasks are in, up to a bound; the URL can name others."""

    title = _("queue")
    parameter_name = "queue"
    template = FOLDED

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Any]") -> Choices:
        queues = {handler.queue for handler in get_task_handlers().values()}
        queues |= set(request.GET.getlist(self.parameter_name))
        in_use = {level.queue for level in snapshot_of(request).agenda.levels} - queues
        queues |= set(sorted(in_use)[: max(0, MAX_QUEUES - len(queues))])
        yield from ((queue, queue) for queue in sorted(queues - {""}))

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        if not self.value():
            return queryset
        # The condition names every status and lane, because the claim index starts with them.
        found = queryset.filter(status__in=TaskStatus.values, queue=self.value())
        lanes = lanes_in_use()
        return found if len(lanes) > MAX_LEVELS else found.filter(lane__in=sorted(lanes))


class DueFilter(SimpleListFilter):
    """Filters pending tasks by how soon they can be claimed."""

    title = _("due time")
    parameter_name = "due"
    template = FOLDED
    spans = {"overdue": timedelta(0), "hour": timedelta(hours=1), "day": timedelta(days=1)}

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Any]") -> Choices:
        yield "overdue", _("overdue")
        yield "hour", _("within an hour")
        yield "day", _("within a day")

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        span = self.spans.get(self.value() or "")
        if span is None:
            return queryset
        return queryset.filter(claimable_within(span, snapshot_of(request).agenda))


def claimable_within(span: timedelta, agenda: Agenda) -> Q:
    """Return the condition for pending tasks that are claimable by ``span`` from now.

    It is one range of the claim index for each level in use.
    """
    until = agenda.now + span
    due = Q(claim_at__lte=until)
    levels = [level for level in agenda.levels if level.earliest <= until]
    if len(levels) > MAX_LEVELS:
        return due & Q(status=TaskStatus.PENDING)
    ranges = [due & range_of(level) for level in levels]
    return reduce(or_, ranges) if ranges else Q(pk__in=())


class OutcomeFilter(SimpleListFilter):
    """Filters by the outcome of a run, among the latest runs, since outcomes have no index."""

    title = _("outcome of the latest runs")
    parameter_name = "outcome"
    template = FOLDED

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Any]") -> Choices:
        yield from ((str(value), label) for value, label in RunOutcome.choices)

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        value = self.value() or ""
        return recent(queryset).filter(outcome=int(value)) if value in map(str, RunOutcome.values) else queryset


class FinishedFilter(SimpleListFilter):
    """Filters runs by when they ended, which primary keys nearly follow: a few are read to find the first."""

    title = _("end")
    parameter_name = "finished_within"
    template = FOLDED
    spans = {"hour": timedelta(hours=1), "day": timedelta(days=1)}

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Any]") -> Choices:
        yield "hour", _("the last hour")
        yield "day", _("the last day")

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        span = self.spans.get(self.value() or "")
        if span is None:
            return queryset
        cutoff = read_now(settings.DATABASE) - span
        return queryset.filter(pk__gte=_first_after(cutoff - SLACK), finished__gte=cutoff)


def _first_after(moment: datetime) -> int:
    """Return the key from which on runs ended after ``moment``, by bisection."""
    runs: Any = TaskRun.objects.using(settings.DATABASE).order_by("pk")
    keys = runs.values_list("pk", flat=True)
    low, high = keys.first() or 0, keys.last() or 0  # for both ends in one statement, SQLite reads all keys
    while low < high:
        middle = (low + high) // 2
        pk, finished = runs.filter(pk__gte=middle).values_list("pk", "finished").first()
        if finished >= moment:
            high = middle
        else:
            low = pk + 1
    return int(low)


def recent(rows: "QuerySet[Any]") -> "QuerySet[Any]":
    """Return only those of the rows that are among the latest of their table."""
    everything: Any = rows.model._base_manager.using(settings.DATABASE)
    latest = everything.order_by("-pk").values_list("pk", flat=True).first()
    return rows.filter(pk__gt=(latest or 0) - RECENT)


M = TypeVar("M", bound=Model)


def containing(rows: "QuerySet[M]", fragment: str) -> "QuerySet[M]":
    """Return the rows whose ``biz_num`` contains the fragment, case-insensitively (the column is case-sensitive)."""
    lowered: Any = rows.alias(lowered=Lower("biz_num"))
    found: QuerySet[M] = lowered.filter(lowered__contains=fragment.strip().lower())
    return found


def is_searching(request: HttpRequest) -> bool:
    """Return whether the request searches the list."""
    return bool(request.GET.get(SEARCH_VAR, "").strip())


BY_ERROR: Final = "task_errors"
"""The name of the page with the failed tasks by their errors."""


class StatusFilter(ChoicesFieldListFilter):
    """Filters tasks by status; the choices are not folded, so that failed tasks are seen at once."""

    template = "admin/django_delayed_tasks/statuses.html"

    def __init__(self, field: Any, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(field, request, *args, **kwargs)
        self.seen = snapshot_of(request)

    def choices(self, changelist: Any) -> Iterator[Any]:
        everything, *each = super().choices(changelist)
        counts = count_statuses(self.seen)
        site = changelist.model_admin.admin_site.name
        yield everything
        for choice, (value, _label) in zip(each, TaskStatus.choices, strict=True):
            count = counts[TaskStatus(value)]
            more = {"count": count_text(count), "kind": TaskStatus(value).name.lower() if count.tasks else ""}
            if value == TaskStatus.FAILED and count.tasks:
                more["by_error"] = reverse(f"{site}:django_delayed_tasks_{BY_ERROR}")
            yield {**choice, **more}


def count_text(count: StatusCount) -> str:
    """Return a count as the list shows it: "61", "about 5,000,000" or "more than 1,000"."""
    number = number_text(count.tasks)
    if count.is_exact:
        return str(number)
    return (gettext("about %s") if count.is_surveyed else gettext("more than %s")) % number
