"""Enqueuing the functions of runs again: an action of the history's list, and a button on a run's page."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, ngettext_lazy

from django_delayed_tasks.admin.actions import question
from django_delayed_tasks.admin.actions.row_actions import log
from django_delayed_tasks.admin.actions.verbs import SEVERAL
from django_delayed_tasks.admin.lists.base import AdminMixin
from django_delayed_tasks.admin.lists.columns import number_text
from django_delayed_tasks.function_tasks.enqueuing import enqueue_again, enqueued_by
from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.stats.findings import MAX_OF_A_KIND

BUTTON: Final = "_enqueue_again"
MAX_RUNS: Final = 1_000
"""The most runs that the action is applied to if "all that match" are selected."""


def _question(runs: "QuerySet[TaskRun]", count: int) -> question.Question:
    effect = _("Each function of these runs is called once more, as soon as an executor is free.")
    yes: Any = ngettext_lazy("Yes, enqueue %(shown)s run again", "Yes, enqueue %(shown)s runs again", "count")
    if count > MAX_RUNS:
        yes = _("Yes, enqueue the latest %s again") % number_text(MAX_RUNS)
        effect = _("Each function of the latest %s of these runs is called once more.") % number_text(MAX_RUNS)
    return question.Question(_("Enqueue these functions again?"), yes, effect, count, question.some_of(runs))


class ReenqueueMixin(AdminMixin):
    """The runs of function tasks, for users who may add tasks."""

    actions = ("enqueue_again",)

    def has_enqueue_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may add tasks."""
        return request.user.has_perm("django_delayed_tasks.add_task")

    @admin.action(description=gettext_lazy("Enqueue again"), permissions=["enqueue"])
    def enqueue_again(self, request: HttpRequest, queryset: "QuerySet[TaskRun]") -> HttpResponse | None:
        """Enqueue each task of the selected runs once; ask first if there are several."""
        count = question.count(queryset)
        if count >= SEVERAL and not question.is_confirmed(request):
            return question.ask(self, request, _question(queryset, count))
        runs = {run.task_id: run for run in queryset.order_by("-id")[:MAX_RUNS]}
        by_problem: defaultdict[str, list[TaskRun]] = defaultdict(list)
        for run in runs.values():
            by_problem[_enqueue(run)].append(run)
        done = by_problem.pop("", [])
        log(request, done, _("enqueued again"))
        if done:
            text = ngettext("%s function was enqueued again.", "%s functions were enqueued again.", len(done))
            self.message_user(request, text % number_text(len(done)), messages.SUCCESS)
        if count > MAX_RUNS:
            self.message_user(request, _("Runs older than the latest %s were left alone.") % number_text(MAX_RUNS))
        self._say_refused(request, by_problem)
        return None

    def _say_refused(self, request: HttpRequest, by_problem: Mapping[str, Sequence[TaskRun]]) -> None:
        for why, refused in islice(by_problem.items(), MAX_OF_A_KIND):
            text = ngettext(
                "“%(run)s” was not enqueued again: %(why)s",
                "%(count)s runs, such as “%(run)s”, were not enqueued again: %(why)s",
                len(refused),
            )
            values = {"run": refused[0], "count": number_text(len(refused)), "why": why}
            self.message_user(request, text % values, messages.WARNING)
        if more := sum(len(refused) for refused in islice(by_problem.values(), MAX_OF_A_KIND, None)):
            text = ngettext(
                "%s more was not enqueued again, for another reason.",
                "%s more were not enqueued again, for other reasons.",
                more,
            )
            self.message_user(request, text % number_text(more), messages.WARNING)

    def _say_gone(self: Any, request: HttpRequest, object_id: str) -> HttpResponse:
        """Answer as Django 6.1 does for a row that no longer exists; earlier versions would raise PermissionDenied."""
        answer: HttpResponse = self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        return answer

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if BUTTON in request.POST and self.has_enqueue_permission(request):
            run = self.get_object(request, unquote(object_id))
            if run is None:
                return self._say_gone(request, object_id)
            if self.has_view_permission(request, run):
                self.enqueue_again(request, self.get_queryset(request).filter(pk=run.pk))
                return HttpResponseRedirect(request.get_full_path())
        return super().change_view(request, object_id, form_url, extra_context)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        run: TaskRun | None = kwargs.get("obj")
        is_offered = run is not None and enqueued_by(run.biz_ext) is not None and self.has_enqueue_permission(request)
        context["again_button"] = BUTTON if is_offered else ""
        return super().render_change_form(request, context, *args, **kwargs)


def _enqueue(run: TaskRun) -> str:
    """Enqueue the run's function again; return why that was refused, or an empty text."""
    enqueued = enqueued_by(run.biz_ext)
    if enqueued is None:
        return _("only functions can be enqueued again")
    try:
        enqueue_again(run.biz_code, enqueued)
    except Exception as error:  # such as a queue that is gone, or a receiver of task_enqueued
        return str(error) or type(error).__name__
    return ""
