"""The read-only pages of executors."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

from django.contrib import admin
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from django_delayed_tasks.admin.lists import columns
from django_delayed_tasks.admin.lists.base import ReadOnlyAdmin, ago_text, database_now
from django_delayed_tasks.admin.lists.changelist import BoundedChangeList
from django_delayed_tasks.admin.lists.columns import column, in_card, moment
from django_delayed_tasks.admin.lists.filters import FOLDED
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import Executor
from django_delayed_tasks.states import ExecutorStatus, TaskStatus
from django_delayed_tasks.stats.findings import busy_text, host_text
from django_delayed_tasks.store.claiming.waiting import running_tasks


class ExecutorChangeList(BoundedChangeList):
    """A list with the number of running tasks of each executor, found by one statement that reads only those tasks."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        counts = running()
        for executor in self.result_list:
            executor.running_tasks = counts.get(executor.pk, 0)


def running() -> dict[int | None, int]:
    """Return how many tasks each executor is running, by its id."""
    return dict(Counter(running_tasks(settings.DATABASE).values_list("executor", flat=True)))


STATES: dict[str, tuple[Any, str]] = {
    "running": (pgettext_lazy("executor", "running"), "done"),
    "stopping": (_("stopping"), "stopping"),
    "lost": (pgettext_lazy("executor", "lost"), "lost"),
    "crashed": (_("crashed"), "failed"),
    "stopped": (_("stopped"), "stopped"),
    "ended": (_("ended"), "ended"),
}
"""Labels, and kinds of badges. The row of an executor that an older release ended does not tell how: "ended"."""


def state_of(executor: Executor, now: datetime) -> str:
    """Return the state of an executor: a key of ``STATES``."""
    if not executor.alive:
        ends = {ExecutorStatus.STOPPED: "stopped", ExecutorStatus.CRASHED: "crashed"}
        return ends.get(cast(Any, executor.status), "ended")
    if executor.expires_at < now:
        return "lost"
    return "stopping" if executor.status == ExecutorStatus.STOPPING else "running"


class StateFilter(admin.SimpleListFilter):
    """Filters by state, as :func:`state_of` tells it."""

    title = _("state")
    parameter_name = "state"
    template = FOLDED

    def lookups(self, request: HttpRequest, model_admin: "admin.ModelAdmin[Any]") -> Iterator[tuple[str, Any]]:
        yield from ((state, label) for state, (label, _kind) in STATES.items())

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        alive, stopping = Q(alive__in=[True]), Q(status=ExecutorStatus.STOPPING)
        leased = alive & Q(expires_at__gte=F("database_now"))
        told = Q(status__in=[ExecutorStatus.STOPPED, ExecutorStatus.CRASHED])
        conditions = {
            "running": leased & ~stopping,
            "stopping": leased & stopping,
            "lost": alive & Q(expires_at__lt=F("database_now")),
            "crashed": Q(alive=None, status=ExecutorStatus.CRASHED),
            "stopped": Q(alive=None, status=ExecutorStatus.STOPPED),
            "ended": Q(alive=None) & ~told,
        }
        condition = conditions.get(self.value() or "")
        return queryset if condition is None else queryset.filter(condition)


@admin.register(Executor)
class ExecutorAdmin(ReadOnlyAdmin[Executor]):
    """The list and the page of executors: live ones first, then the latest."""

    list_display = ("name", "state", "running_tasks", "queues_", "process", "heartbeat", "started_", "version_")
    list_filter = (StateFilter,)
    search_fields = ("name", "host")
    sortable_by = ("name",)
    lookups = ("id", "name", "host", "alive")
    fieldsets = (
        (None, {"fields": (("name", "state"), ("host_", "pid_", "version_"))}),
        (_("Work"), {"fields": (("running_tasks", "queues_"), "codes_")}),
        (_("Lease"), {"fields": (("started_", "heartbeat", "lease"),)}),
    )

    state = column(_("state"), lambda executor: columns.badge(*STATES[state_of(executor, database_now(executor))]))
    host_ = column(_("host"), lambda executor: columns.named(host_text(executor.host)))
    pid_ = column(_("PID"), lambda executor: str(executor.pid))
    codes_ = column(_("codes"), lambda executor: columns.names_text(executor.codes))
    heartbeat = in_card(_("last heartbeat"), lambda executor: ago_text(executor, executor.heartbeat_at))
    lease = moment(_("lease until"), "expires_at")
    started_ = in_card(_("started"), lambda executor: columns.moment_text(executor.started_at))
    version_ = in_card(_("version"), lambda executor: executor.version)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return ExecutorChangeList

    def get_ordering(self, request: HttpRequest) -> Any:
        return (F("alive").desc(nulls_last=True), "-started_at", "-id")

    @admin.display(description=_("queues"))
    def queues_(self, executor: Executor) -> SafeString:
        served = columns.names_text(executor.queues) if executor.queues is not None else str(_("all"))
        excluded = columns.names_text(executor.exclude_queues) if executor.exclude_queues else ""
        text = str(_("%(queues)s but %(excluded)s")) % {"queues": served, "excluded": excluded} if excluded else served
        return columns.labelled(_("queues"), text)

    @admin.display(description=_("host"))
    def process(self, executor: Executor) -> SafeString | str:
        """Return the host, and below it the PID."""
        label = _("PID")
        return columns.two_lines(self.host_(executor), f"{label} {executor.pid}")

    @admin.display(description=_("threads busy"))
    def running_tasks(self, executor: Executor) -> Any:
        known = getattr(executor, "running_tasks", None)
        count = running().get(executor.pk, 0) if known is None else known
        text = busy_text(count, executor.threads)
        if not count:
            return columns.labelled(_("threads busy"), text)
        tasks = reverse(f"{self.admin_site.name}:django_delayed_tasks_task_changelist")
        address = f"{tasks}?status__exact={TaskStatus.RUNNING.value}&executor={executor.pk}"
        return columns.labelled(_("threads busy"), format_html('<a href="{}">{}</a>', address, text))
