"""The page of one task: the store does every write, fenced by the version that the page showed."""

from typing import Any

from django.contrib import messages
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_delayed_tasks.admin.actions import seen
from django_delayed_tasks.admin.lists.base import KEY, AdminMixin
from django_delayed_tasks.admin.tasks.fieldsets import READ_ONLY, adding, changing
from django_delayed_tasks.admin.tasks.forms import AddTaskForm, ChangeTaskForm
from django_delayed_tasks.admin.tasks.summary import summary_of
from django_delayed_tasks.admin.tasks.writes import Conflict, add, cancel, change
from django_delayed_tasks.admin.triggers.fields import PREVIEW
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import PausedQueue, Task, TaskRun
from django_delayed_tasks.states import CancelResult, TaskStatus
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.support.durations import past_text

BUTTONS: dict[str, Any] = {
    "run_now": gettext_lazy("Run now"),
    "postpone": gettext_lazy("Postpone by an hour"),
    "retry_failed": gettext_lazy("Retry"),
    "pause": gettext_lazy("Pause"),
    "resume": gettext_lazy("Resume"),
}
"""The actions that a task's page offers if the task's state allows them."""

_OFFERED: dict[int, tuple[str, ...]] = {
    TaskStatus.PENDING: ("run_now", "postpone", "pause"),
    TaskStatus.RUNNING: ("pause",),
    TaskStatus.FAILED: ("retry_failed",),
    TaskStatus.PAUSED: ("resume",),
}


def is_stopping(task: Task) -> bool:
    """Return whether the task was asked to stop, so that there is nothing left to cancel."""
    return task.cancel_requested_at is not None and task.deferred_when is None


def offered(task: Task) -> list[tuple[str, Any]]:
    """Return the buttons for the actions that this task's state allows."""
    names: tuple[str, ...] = _OFFERED.get(task.status, ())
    if task.status == TaskStatus.RUNNING and task.pause_requested:
        names = ("resume",)
    elif is_stopping(task):
        names = ()
    return [(name, BUTTONS[name]) for name in names]


class TaskPages(AdminMixin):
    """The views to add, change and cancel one task."""

    def has_change_permission(self, request: HttpRequest, obj: Task | None = None) -> bool:
        runs = obj is not None and obj.status == TaskStatus.RUNNING
        return super().has_change_permission(request, obj) and not runs

    def get_form(self, request: HttpRequest, obj: Task | None = None, change: bool = False, **kwargs: Any) -> Any:
        form = ChangeTaskForm if change else AddTaskForm
        return super().get_form(request, obj, change, **{"form": form, **kwargs})

    def get_fieldsets(self, request: HttpRequest, obj: Task | None = None) -> Any:
        return adding() if obj is None else changing(obj, self.has_change_permission(request, obj))

    def get_readonly_fields(self, request: HttpRequest, obj: Task | None = None) -> tuple[str, ...]:
        return () if obj is None else READ_ONLY

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            return super().add_view(request, form_url, extra_context)
        except Conflict as conflict:
            return self._refused(request, conflict)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        task = self.get_object(request, unquote(object_id)) if request.method == "POST" else None
        if task is not None and super().has_change_permission(request, task):
            if button := self._button(request):
                getattr(self, button)(request, self.get_queryset(request).filter(pk=task.pk))
                return HttpResponseRedirect(request.get_full_path())
            if task.status == TaskStatus.RUNNING:
                return self._refused(request, Conflict(str(seen.CHANGED)))
        try:
            return super().change_view(request, object_id, form_url, extra_context)
        except Conflict as conflict:
            return self._refused(request, conflict)

    def _button(self, request: HttpRequest) -> str | None:
        return next((name for name in BUTTONS if f"_{name}" in request.POST), None)

    def _refused(self, request: HttpRequest, conflict: Conflict) -> HttpResponse:
        self.message_user(request, str(conflict), messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        task: Task | None = kwargs.get("obj")
        may_save = self.has_add_permission(request) if task is None else self.has_change_permission(request, task)
        context["preview_name"] = PREVIEW if may_save else ""
        context["is_preview"] = PREVIEW in request.POST
        if task is not None:
            context |= self._page_context(request, task)
        return super().render_change_form(request, context, *args, **kwargs)

    def _page_context(self, request: HttpRequest, task: Task) -> dict[str, Any]:
        runs = reverse(f"{self.admin_site.name}:django_delayed_tasks_taskrun_changelist")
        identity = urlencode({"biz_code__exact": task.biz_code, "biz_num__exact": task.biz_num})
        may_operate = super().has_change_permission(request, task)
        return {
            "seen_name": seen.NAME,
            # After an error the form is shown again, with the version that was shown first.
            "seen_value": request.POST.get(seen.NAME, seen.mark(task)),
            "is_running": task.status == TaskStatus.RUNNING,
            "runs_url": f"{runs}?{identity}",
            "action_buttons": offered(task) if may_operate else (),
            "paused_queue": PausedQueue.objects.using(settings.DATABASE).filter(queue=task.queue).first(),
            "summary": summary_of(self, task),
            "may_edit": self.has_change_permission(request, task),
            # The next times of a recurring task are in its form.
            "is_form_open": request.method == "POST" or task.trigger_text is not None,
            "show_delete": False,  # "Cancel" is shown instead
            "may_cancel": self.has_delete_permission(request, task) and not is_stopping(task),
            "is_stopping": is_stopping(task),
        }

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        """Redirect from the page of a task that has ended to its last run."""
        runs = TaskRun.objects.using(settings.DATABASE).order_by("-pk")
        is_key = KEY.fullmatch(object_id) and request.user.has_perm("django_delayed_tasks.view_taskrun")
        run = runs.filter(task_id=int(object_id)).first() if is_key else None
        if run is None:
            response: HttpResponse = super()._get_obj_does_not_exist_redirect(request, opts, object_id)  # type: ignore[misc]
            return response
        self.message_user(request, _("This task has ended: this is its last run."), messages.INFO)
        address = reverse(f"{self.admin_site.name}:django_delayed_tasks_taskrun_change", args=[run.pk])
        return HttpResponseRedirect(address)

    def save_model(self, request: HttpRequest, obj: Task, form: Any, change_: bool) -> None:
        if change_:
            change(obj, form)
        else:
            obj.pk = add(form)
        when = form.cleaned_data.get("when") if "when" in form.changed_data else None
        if when and (text := past_text(when, read_now(settings.DATABASE))):
            self.message_user(request, text, messages.WARNING)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            return super().delete_view(request, object_id, extra_context)
        except Conflict as conflict:
            return self._refused(request, conflict)

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> Any:
        task: Task = context["object"]
        seen_context = {"seen_name": seen.NAME, "seen_value": seen.mark(task)}
        running = task.status == TaskStatus.RUNNING
        shown = {"title": _("Cancel task"), "is_running": running, "is_by_handler": bool(task.by_handler)}
        return super().render_delete_form(request, context | seen_context | shown)

    def delete_model(self, request: HttpRequest, obj: Task) -> None:
        texts = {
            CancelResult.CANCELLED: _("“%s” was cancelled."),
            CancelResult.STOPPING: _("“%s” is running: it was asked to stop, and will not be run again."),
        }
        self.message_user(request, texts[cancel(seen.versions(request), obj)] % obj, messages.SUCCESS)

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: int) -> HttpResponse:
        address = reverse(f"{self.admin_site.name}:django_delayed_tasks_task_changelist")
        filters: Any = {"preserved_filters": self.get_preserved_filters(request), "opts": self.opts}
        return HttpResponseRedirect(add_preserved_filters(filters, address))
