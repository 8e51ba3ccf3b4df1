"""The actions on tasks in the admin: fenced by the versions that the page showed, and logged."""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_delayed_tasks.admin.tasks import pauses, seen
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.schedules import edit
from django_delayed_tasks.store.schedules.cancel import cancel_seen
from django_delayed_tasks.store.sql.fences import Claim

if TYPE_CHECKING:
    Base = admin.ModelAdmin[Task]
else:
    Base = object

BATCH: Final = 500
MOST: Final = 10_000
"""The most tasks that one action is applied to if "all that match" are selected."""

HOUR: Final = timedelta(hours=1)
Verb = Callable[[str, Collection[Claim]], list[int]]


class SteeringActions(Base):
    """The actions of the list of tasks, which are also the buttons of a task's page."""

    actions = ("run_now", "postpone", "pause", "resume", "retry_failed", "cancel")

    @admin.action(description=gettext_lazy("Run now"), permissions=["change"])
    def run_now(self, request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        self._steer(request, queryset, edit.run_now, _("made claimable at once"))

    @admin.action(description=gettext_lazy("Postpone by an hour"), permissions=["change"])
    def postpone(self, request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        self._steer(request, queryset, lambda alias, pairs: edit.postpone(alias, pairs, HOUR), _("postponed"))

    @admin.action(description=gettext_lazy("Retry failed"), permissions=["change"])
    def retry_failed(self, request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        self._steer(request, queryset, edit.retry_failed, _("made pending again"))

    @admin.action(description=gettext_lazy("Pause"), permissions=["change"])
    def pause(self, request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        self._steer(request, queryset, pauses.pause_all, _("paused, or will be after its run"))

    @admin.action(description=gettext_lazy("Resume"), permissions=["change"])
    def resume(self, request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        self._steer(request, queryset, pauses.resume_all, _("resumed"))

    @admin.action(description=gettext_lazy("Cancel"), permissions=["delete"])
    def cancel(self, request: HttpRequest, queryset: "QuerySet[Task]") -> None:
        self._steer(request, queryset, cancel_seen, _("cancelled, or asked to stop if running"))

    def _steer(self, request: HttpRequest, queryset: "QuerySet[Task]", verb: Verb, done: str) -> None:
        alias, changed, asked = settings.DATABASE, 0, 0
        for tasks in batches(request, queryset):
            ids = set(verb(alias, [(task.pk, task.version) for task in tasks]))
            log(request, [task for task in tasks if task.pk in ids], done)
            changed, asked = changed + len(ids), asked + len(tasks)
        wakeup.when_committed(alias)
        self._report(request, changed, asked, done)

    def _report(self, request: HttpRequest, changed: int, asked: int, done: str) -> None:
        if changed:
            text = ngettext("%(count)d task was %(done)s.", "%(count)d tasks were %(done)s.", changed)
            self.message_user(request, text % {"count": changed, "done": done}, messages.SUCCESS)
        if left := asked - changed:
            text = ngettext(
                "%(count)d task was left unchanged: it changed since the page was loaded, or its state forbids this.",
                "%(count)d tasks were left unchanged: changed since the page was loaded, or in the wrong state.",
                left,
            )
            self.message_user(request, text % {"count": left}, messages.WARNING)
        if asked >= MOST:
            self.message_user(request, _("No more than %d tasks are changed at a time.") % MOST, messages.WARNING)


def batches(request: HttpRequest, queryset: "QuerySet[Task]") -> Iterator[list[Task]]:
    """Yield the selected tasks, in the versions that the page showed.

    If "all that match" are selected, the tasks that were not on the page are taken in their present versions.
    """
    everything = request.POST.get("select_across") == "1"
    versions = seen.versions(request)
    tasks, last = queryset.only("biz_code", "biz_num", "version").order_by("pk"), 0
    for _number in range(MOST // BATCH):
        batch = list(tasks.filter(pk__gt=last)[:BATCH])
        if not batch:
            return
        last = batch[-1].pk
        for task in batch:
            task.version = versions.get(task.pk, task.version if everything else -1)
        yield batch


def log(request: HttpRequest, tasks: "Sequence[Task | TaskRun]", done: str) -> None:
    """Write an entry for each task, or run, into the admin's log."""
    message: Any = done[:1].upper() + done[1:] + "."
    if tasks:
        LogEntry.objects.log_actions(request.user.pk, tasks, CHANGE, message)  # type: ignore[arg-type]
