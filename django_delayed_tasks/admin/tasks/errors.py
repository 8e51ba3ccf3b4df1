"""Failed tasks by their errors: a page with the groups, and the filter for the tasks of one group.

Both read the tasks that failed last, up to a bound, since errors have no index.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.db.models.functions import Right
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_delayed_tasks.admin.lists import columns
from django_delayed_tasks.admin.lists.base import AdminMixin, page_context
from django_delayed_tasks.admin.lists.filters import BY_ERROR, FOLDED, CodeFilter, snapshot_of
from django_delayed_tasks.admin.lists.segments import BY_LEVEL, Order
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus

MAX_TASKS: Final = 2_000
"""The tasks that failed last and are grouped."""
FAILED: Final = TaskStatus.FAILED
EXCEPTION: Final = re.compile(r"(?P<error>[\w.]+)(: (?P<message>.*))?", re.ASCII)
"""The last line of a traceback."""


class Failure(NamedTuple):
    """A failed task: its key and code, the class of its error, the error's message, and when it failed."""

    key: int
    code: str
    error: str
    message: str
    failed_at: datetime


@dataclass(frozen=True, slots=True)
class Group:
    """The failed tasks of one code with one error, those that failed last first."""

    code: str
    error: str
    failures: Sequence[Failure]

    @property
    def shown_code(self) -> str:
        return columns.breakable(self.code)

    @property
    def shown_error(self) -> str:
        return columns.breakable(self.error)

    @property
    def message(self) -> str:
        return self.failures[0].message

    @property
    def latest(self) -> str:
        return columns.moment_text(self.failures[0].failed_at)

    @property
    def earliest(self) -> str:
        return columns.moment_text(self.failures[-1].failed_at)

    @property
    def query(self) -> str:
        """The condition of the list for these tasks."""
        code, error = CodeFilter.parameter_name, ErrorFilter.parameter_name
        return urlencode({"status__exact": str(FAILED.value), code: self.code, error: self.error})


class Latest(NamedTuple):
    """The tasks that failed last, the latest first; ``note`` says which, if there are more than ``MAX_TASKS``."""

    failures: Sequence[Failure]
    note: str


def latest_failures(request: HttpRequest) -> Latest:
    """Return the tasks that failed last, at most ``MAX_TASKS``."""
    tasks: QuerySet[Any] = Task.objects.using(settings.DATABASE).filter(status=FAILED)
    keys = Order(tasks, frozenset({FAILED}), snapshot_of(request).agenda).keys(MAX_TASKS + 1)
    note = _("More than %(most)s tasks have failed. These are the %(most)s that failed last.")
    if keys is None:  # those that come first in the claim index
        keys = list(tasks.order_by(*BY_LEVEL).values_list("pk", flat=True)[: MAX_TASKS + 1])
        note = _(
            "More than %(most)s tasks have failed, in too many queues and priorities to find the latest failures. "
            "These are %(most)s of them."
        )
    shown = note % {"most": columns.number_text(MAX_TASKS)} if len(keys) > MAX_TASKS else ""
    of_keys = tasks.order_by().filter(pk__in=keys[:MAX_TASKS])
    rows = of_keys.values_list("pk", "biz_code", "claim_at", Right("last_error", 500))
    found = [Failure(key, code, *error_of(end), failed_at) for key, code, failed_at, end in rows]
    return Latest(sorted(found, key=lambda failure: (failure.failed_at, failure.key), reverse=True), shown)


def error_of(text: str) -> tuple[str, str]:
    """Return the class of the exception that a traceback ends with, and its message; another text has no message."""
    line = columns.last_line(text, 200)
    found = EXCEPTION.fullmatch(line)
    return (found["error"], found["message"] or "") if found else (line, "")


def groups(failures: Sequence[Failure]) -> list[Group]:
    """Return these failures by code and error, the largest group first."""
    found: dict[tuple[str, str], list[Failure]] = defaultdict(list)
    for failure in failures:
        found[failure.code, failure.error].append(failure)
    return sorted((Group(*key, some) for key, some in found.items()), key=lambda group: -len(group.failures))


class ErrorFilter(admin.SimpleListFilter):
    """Filters failed tasks by an error that the page of errors links to; it has no choices of its own."""

    title = gettext_lazy("error")
    parameter_name = "error"
    template = FOLDED

    def lookups(self, request: HttpRequest, model_admin: "admin.ModelAdmin[Any]") -> Iterator[tuple[str, str]]:
        label = _("%(error)s (of the %(most)s tasks that failed last)")
        for error in request.GET.getlist(self.parameter_name)[-1:]:
            yield error, label % {"error": error, "most": columns.number_text(MAX_TASKS)}

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        if not self.value():
            return queryset
        keys = [failure.key for failure in latest_failures(request).failures if failure.error == self.value()]
        return queryset.filter(status=FAILED, pk__in=keys)


class ErrorPages(AdminMixin):
    """The page with the failed tasks by their errors."""

    def get_urls(self) -> Any:
        view = self.admin_site.admin_view(self.errors_view)
        return [path("errors/", view, name=f"django_delayed_tasks_{BY_ERROR}"), *super().get_urls()]

    def errors_view(self, request: HttpRequest) -> HttpResponse:
        """Show how many tasks failed with each error; a group leads to the list of its tasks, which has the actions."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        failures, note = latest_failures(request)
        context = {
            **page_context(self, request, _("Failed tasks by error")),
            "groups": groups(failures),
            "note": note,
        }
        return TemplateResponse(request, "admin/django_delayed_tasks/task/errors.html", context)
