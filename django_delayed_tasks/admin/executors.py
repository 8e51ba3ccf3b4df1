"""The read-only pages of executors."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, F
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from django_delayed_tasks.admin.lists import columns
from django_delayed_tasks.admin.lists.base import ReadOnlyAdmin, database_now
from django_delayed_tasks.admin.lists.changelist import BoundedChangeList
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import TaskStatus


class ExecutorChangeList(BoundedChangeList):
    """A list with the number of running tasks of each executor, found by one statement that reads only those tasks."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        counts = running()
        for executor in self.result_list:
            executor.running_tasks = counts.get(executor.pk, 0)


def running() -> dict[int | None, int]:
    """Return how many tasks each executor is running, by its id."""
    tasks: Any = Task.objects.using(settings.DATABASE).filter(status=TaskStatus.RUNNING).order_by()
    return dict(tasks.values_list("executor").annotate(Count("pk")))


@admin.register(Executor)
class ExecutorAdmin(ReadOnlyAdmin[Executor]):
    """The list and the page of executors: live ones first, then the latest."""

    list_display = ("name", "state", "host", "pid", "queues_", "threads", "heartbeat", "started_", "running_tasks")
    search_fields = ("name", "host")
    sortable_by = ("name", "host")
    lookups = ("id", "name", "host", "alive")
    fieldsets = (
        (None, {"fields": (("name", "state"), ("host", "pid"))}),
        (_("Work"), {"fields": (("queues_", "threads", "running_tasks"), "codes_")}),
        (_("Lease"), {"fields": (("started_", "heartbeat", "lease"),)}),
    )

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return ExecutorChangeList

    def get_ordering(self, request: HttpRequest) -> Any:
        return (F("alive").desc(nulls_last=True), "-id")

    @admin.display(description=_("state"))
    def state(self, executor: Executor) -> SafeString:
        if not executor.alive:
            return columns.badge(_("ended"), "ended")
        if executor.expires_at < database_now(executor):
            return columns.badge(_("lost"), "failed")
        return columns.badge(_("alive"), "done")

    @admin.display(description=_("queues"))
    def queues_(self, executor: Executor) -> str:
        return columns.names_text(executor.queues) if executor.queues is not None else str(_("all"))

    @admin.display(description=_("codes"))
    def codes_(self, executor: Executor) -> str:
        return columns.names_text(executor.codes)

    @admin.display(description=_("last heartbeat"))
    def heartbeat(self, executor: Executor) -> str:
        return str(_("%s ago")) % columns.duration_text(database_now(executor) - executor.heartbeat_at)

    @admin.display(description=_("lease until"))
    def lease(self, executor: Executor) -> str:
        return columns.moment_text(executor.expires_at)

    @admin.display(description=_("started"))
    def started_(self, executor: Executor) -> str:
        return columns.moment_text(executor.started_at)

    @admin.display(description=_("running tasks"))
    def running_tasks(self, executor: Executor) -> Any:
        known = getattr(executor, "running_tasks", None)
        count = running().get(executor.pk, 0) if known is None else known
        if not count:
            return count
        tasks = reverse(f"{self.admin_site.name}:django_delayed_tasks_task_changelist")
        address = f"{tasks}?status__exact={TaskStatus.RUNNING.value}&executor={executor.pk}"
        return format_html('<a href="{}">{}</a>', address, count)
