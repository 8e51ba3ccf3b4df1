"""The actions on tasks in the admin: confirmed, fenced by the versions that the page showed, and logged."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext, gettext_lazy, ngettext

from django_delayed_tasks.admin.steering import portions, question, seen, verbs
from django_delayed_tasks.admin.steering.portions import Progress
from django_delayed_tasks.admin.steering.verbs import Action
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.support.durations import number_text

if TYPE_CHECKING:
    Base = admin.ModelAdmin[Task]
else:
    Base = object

BATCH: Final = 500
"""The number of tasks that one transaction changes."""

Response = HttpResponse | None


class SteeringActions(Base):
    """The actions of the list of tasks, which are also the buttons of a task's page."""

    actions = ("run_now", "postpone", "pause", "resume", "retry_failed", "cancel")

    run_now = verbs.RUN_NOW.method(gettext_lazy("Run now"), "change")
    postpone = verbs.POSTPONE.method(gettext_lazy("Postpone by an hour"), "change")
    retry_failed = verbs.RETRY_FAILED.method(gettext_lazy("Retry failed"), "change")
    pause = verbs.PAUSE.method(gettext_lazy("Pause"), "change")
    resume = verbs.RESUME.method(gettext_lazy("Resume"), "change")
    cancel = verbs.CANCEL.method(gettext_lazy("Cancel"), "delete")

    def act(self, request: HttpRequest, queryset: "QuerySet[Task]", action: Action) -> Response:
        """Ask the user if needed; otherwise do the action to the selected tasks, or to a portion of all that match."""
        is_across = question.is_across(request)
        if not question.is_confirmed(request) and (asked := self._question(queryset, action, is_across)):
            started = Progress.begin(queryset, asked.count).inputs() if is_across else ()
            return question.ask(self, request, asked, started)
        if is_across:
            return self._steer_portion(request, queryset, action)
        self._steer_all(request, queryset, action)
        return None

    def _question(self, queryset: "QuerySet[Task]", action: Action, is_across: bool) -> question.Question | None:
        """Return what the user is asked first; None if the action needs no question."""
        if not is_across and action.asks_from is None:
            return None
        count = question.count(queryset)
        if not is_across and count < (action.asks_from or 0):
            return None
        return action.asked(count, question.some_of(queryset))

    def _steer_all(self, request: HttpRequest, queryset: "QuerySet[Task]", action: Action) -> None:
        """Change the selected tasks, in the versions that the page showed."""
        versions = seen.versions(request)
        tasks = list(light(queryset).order_by("pk"))
        for task in tasks:
            task.version = versions.get(task.pk, -1)
        changed = sum(apply(request, batch, action) for batch in batches(tasks))
        selected = set(request.POST.getlist(ACTION_CHECKBOX_NAME))  # some may no longer match the page's filters
        self._report(request, changed, max(len(selected), len(tasks)), action)

    def _steer_portion(self, request: HttpRequest, queryset: "QuerySet[Task]", action: Action) -> Response:
        """Change some of the tasks that match; those that were not on the page are taken in their present versions."""
        progress = Progress.read(request)
        tasks = progress.portion(light(queryset))
        versions = seen.versions(request)
        for task in tasks:
            task.version = versions.get(task.pk, task.version)
        progress = progress.passed(tasks, apply(request, tasks, action))
        if len(tasks) == portions.PORTION:
            return portions.page(self, request, action.question, progress)
        self._report(request, progress.changed, progress.asked, action)
        return None

    def _report(self, request: HttpRequest, changed: int, asked: int, action: Action) -> None:
        if changed:
            text = ngettext("%(count)s task was %(done)s.", "%(count)s tasks were %(done)s.", changed)
            self.message_user(request, text % {"count": number_text(changed), "done": action.done}, messages.SUCCESS)
        if left := asked - changed:
            text = ngettext(
                "%(count)s task was left unchanged: it changed since the page was loaded, or its state forbids this.",
                "%(count)s tasks were left unchanged: changed since the page was loaded, or in the wrong state.",
                left,
            )
            self.message_user(request, text % {"count": number_text(left)}, messages.WARNING)


def light(tasks: "QuerySet[Task]") -> "QuerySet[Task]":
    """Return these tasks with only the columns that actions need."""
    return tasks.only("biz_code", "biz_num", "version")


def batches(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Yield these tasks in lists of at most ``BATCH``."""
    rest = iter(tasks)
    while batch := list(islice(rest, BATCH)):
        yield batch


def apply(request: HttpRequest, tasks: list[Task], action: Action) -> int:
    """Change those of these tasks that are in their versions, log them, wake executors; return how many changed."""
    ids = set(action.do(settings.DATABASE, [(task.pk, task.version) for task in tasks]))
    log(request, [task for task in tasks if task.pk in ids], str(action.done))
    wakeup.when_committed(settings.DATABASE)
    return len(ids)


def log(request: HttpRequest, tasks: "Sequence[Task | TaskRun]", done: str) -> None:
    """Write an entry for each task, or run, into the admin's log."""
    message: Any = gettext("%s.") % (done[:1].upper() + done[1:])
    if tasks:
        LogEntry.objects.log_actions(request.user.pk, tasks, CHANGE, message)  # type: ignore[arg-type]
