"""The page of queues: the due and running tasks of each, which queues are paused, and buttons to pause and resume."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks import api
from django_delayed_tasks.admin.lists import columns
from django_delayed_tasks.admin.lists.base import OnePageAdmin, page_context
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.models import PausedQueue
from django_delayed_tasks.stats.backlogs import MAX_QUEUES, QueueBacklog, queues_of
from django_delayed_tasks.stats.findings import MAX_OF_A_KIND, tasks_text
from django_delayed_tasks.stats.snapshot import take_snapshot
from django_delayed_tasks.store.claiming.waiting import COUNTED
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.schedules import pause
from django_delayed_tasks.support.durations import number_text


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue as the page shows it."""

    queue: QueueBacklog
    codes: Sequence[str]
    now: datetime

    @property
    def badge(self) -> str:
        if self.queue.paused_at:
            return columns.badge(_("paused"), "paused")
        return columns.badge(_("open"), "done") if self.queue.served_by else columns.badge(_("not served"), "failed")

    @property
    def is_late(self) -> bool:
        """Whether tasks are due that no limit holds back."""
        return self.queue.earliest is not None and self.queue.earliest <= self.now

    @property
    def late_since(self) -> str:
        return columns.moment_text(self.queue.earliest) if self.is_late else ""

    @property
    def shown_names(self) -> Sequence[str]:
        """The first of the executors that serve the queue."""
        return self.queue.served_by[:MAX_OF_A_KIND]

    @property
    def more_names(self) -> str:
        """The number of further executors that serve it."""
        more = len(self.queue.served_by) - MAX_OF_A_KIND
        return _("and %d more") % more if more > 0 else ""

    @property
    def since(self) -> str:
        return _("since %s") % columns.moment_text(self.queue.paused_at)

    @property
    def paused_for(self) -> str:
        paused_at = self.queue.paused_at
        return _("for %s") % columns.duration_text(self.now - paused_at) if paused_at else ""

    @property
    def due_text(self) -> str:
        due = self.queue.due
        return _("more than %s") % number_text(COUNTED) if due > COUNTED else number_text(due)

    @property
    def limited(self) -> int:
        return sum(one.tasks for one in self.queue.limited)

    @property
    def limited_text(self) -> str:
        """The number of due tasks that wait for a limit; empty if none does."""
        text = ngettext("%s waits for a limit", "%s wait for a limit", self.limited)
        return text % tasks_text(self.limited) if self.limited else ""

    @property
    def next(self) -> str:
        if self.queue.earliest is None:
            if self.queue.held_back:
                return _("held back")
            return _("blocked by limits") if self.limited else columns.EMPTY
        return columns.distance_text(self.queue.earliest, self.now)

    @property
    def query(self) -> str:
        """The query string of the URLs that lead to the queue's tasks."""
        return urlencode({"queue": self.queue.name})


def read_queues() -> list[QueueRow]:
    """Return the queues with the codes whose tasks are in them by default."""
    seen = take_snapshot(settings.DATABASE)
    codes: defaultdict[str, list[str]] = defaultdict(list)
    for code, handler in sorted(get_task_handlers().items()):
        codes[handler.queue].append(code)
    return [QueueRow(queue, codes[queue.name], seen.now) for queue in queues_of(seen, seen.running)]


@admin.register(PausedQueue)
class PausedQueueAdmin(OnePageAdmin[PausedQueue]):
    """The one page of queues. Users with the permission to change paused queues can pause and resume."""

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may pause and resume queues."""
        allowed: bool = request.user.has_perm("django_delayed_tasks.change_pausedqueue")
        return allowed

    def has_view_permission(self, request: HttpRequest, obj: PausedQueue | None = None) -> bool:
        return super().has_view_permission(request, obj) or self.has_operate_permission(request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            return self._apply(request)
        rows = read_queues()
        context = {
            **page_context(self, request, _("Queues")),
            "rows": rows,
            "most": MAX_QUEUES if len(rows) >= MAX_QUEUES else None,
            "may_operate": self.has_operate_permission(request),
            "tasks_url": reverse(f"{self.admin_site.name}:django_delayed_tasks_task_changelist"),
            "entries": list(self._entries()),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/django_delayed_tasks/pausedqueue/queues.html", context)

    def _entries(self) -> Iterator[LogEntry]:
        kind = ContentType.objects.get_for_model(PausedQueue)
        entries = LogEntry.objects.filter(content_type=kind).select_related("user").order_by("-action_time", "-pk")
        yield from entries[:10]

    def _apply(self, request: HttpRequest) -> HttpResponse:
        if not self.has_operate_permission(request):
            raise PermissionDenied
        if "pause" in request.POST:
            self._pause(request, request.POST["pause"] or request.POST.get("name", "").strip())
        elif "resume" in request.POST:
            self._resume(request, request.POST["resume"])
        return HttpResponseRedirect(request.path)

    def _pause(self, request: HttpRequest, name: str) -> None:
        try:
            is_new = api.pause_queue(name, using=settings.DATABASE)
        except InvalidTask as error:
            self.message_user(request, str(error), messages.ERROR)
            return
        if not is_new:
            self.message_user(request, _("The queue “%s” is paused already.") % name, messages.WARNING)
            return
        self._log(request, name, _("Paused."))
        self.message_user(
            request, _("The queue “%s” is paused: tasks already claimed will still run.") % name, messages.SUCCESS
        )

    def _resume(self, request: HttpRequest, name: str) -> None:
        # The name is compared here: a row written by other means may have a name that pause_queue does not accept.
        alias = settings.DATABASE
        paused = set(PausedQueue.objects.using(alias).values_list("queue", flat=True))
        if name not in paused or not pause.resume_queue(alias, name):
            self.message_user(request, _("The queue “%s” is no longer paused.") % name, messages.WARNING)
            return
        wakeup.when_committed(alias, lambda: [name])
        self._log(request, name, _("Resumed."))
        self.message_user(request, _("The queue “%s” was resumed.") % name, messages.SUCCESS)

    def _log(self, request: HttpRequest, name: str, done: str) -> None:
        message: Any = done
        LogEntry.objects.log_actions(request.user.pk, [PausedQueue(queue=name)], CHANGE, message)  # type: ignore[arg-type]
