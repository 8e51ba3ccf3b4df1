"""The page of the overview, as HTML that refreshes itself and as JSON."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, path, reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.http import urlencode
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from django_delayed_tasks import stats
from django_delayed_tasks.admin.lists.base import OnePageAdmin, page_context
from django_delayed_tasks.admin.overview import pictures, tiles
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import Executor, Overview, PausedQueue, Resource, Task
from django_delayed_tasks.stats.findings import LEVELS, Problem
from django_delayed_tasks.stats.overviews import SPANS
from django_delayed_tasks.stats.tables import Address, Tables

MAX_OF_A_BANNER: Final = 3
"""The most problems that a banner names."""
FRAGMENT: Final = "fragment"
CODES: Final = "codes"
"""The parameter of the address that asks for all codes."""
FOLDER: Final = "admin/django_delayed_tasks/overview"


@admin.register(Overview)
class OverviewAdmin(OnePageAdmin[Overview]):
    """The one page of the overview; the permission to view overviews is needed."""

    class Media:
        css = {"all": ["django_delayed_tasks/overview.css"]}
        js = ["django_delayed_tasks/overview.js"]

    def get_urls(self) -> Any:
        views = {"json": ("overview.json", self.json_view), "problems": ("problems/", self.problems_view)}
        more = [
            path(address, self.admin_site.admin_view(view), name=f"django_delayed_tasks_overview_{name}")
            for name, (address, view) in views.items()
        ]
        return [*more, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.GET.get("format") == "json":
            return self.json_view(request)
        if not self.has_view_permission(request):
            raise PermissionDenied
        is_fragment = FRAGMENT in request.GET
        context = {**self._content(request), **(extra_context or {})}
        if not is_fragment:
            context |= {**page_context(self, request, _("Overview")), "subtitle": None}
        template = "content" if is_fragment else "page"
        response = TemplateResponse(request, f"{FOLDER}/{template}.html", context)
        add_never_cache_headers(response)
        return response

    def json_view(self, request: HttpRequest) -> HttpResponse:
        """Return the overview as JSON."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        response = JsonResponse(stats.overview(_chosen(request, "span", SPANS), using=settings.DATABASE).as_json())
        add_never_cache_headers(response)
        return response

    def problems_view(self, request: HttpRequest) -> HttpResponse:
        """Return the problems, as the banner of other pages."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        found = [problem for problem in stats.problems(using=settings.DATABASE) if problem.level != "info"]
        context = {
            "problems": linked(of_each_kind(found, MAX_OF_A_BANNER), self._address),
            "more": max(0, len(found) - MAX_OF_A_BANNER),
            "address": self._address("overview"),
        }
        response = TemplateResponse(request, f"{FOLDER}/problems_banner.html", context)
        add_never_cache_headers(response)
        return response

    def _content(self, request: HttpRequest) -> dict[str, Any]:
        span = _chosen(request, "span", SPANS)
        ahead = _chosen(request, "ahead", pictures.PERIODS)
        seen = stats.overview(span, using=settings.DATABASE)
        return {
            "seen": seen,
            "problems": linked(seen.problems, self._address),
            "span": span,
            "ahead": ahead,
            "now": timezone.localtime(seen.now),
            "forecast": pictures.forecast(seen.forecast, ahead),
            "throughput": pictures.throughput(seen),
            "lateness": pictures.lateness(seen),
            "tiles": tiles.Tiles(seen, self._address),
            "pending": tiles.pending_text(seen),
            "peak": tiles.peak_text(seen),
            "known": tiles.known_text(seen),
            "tables": Tables(seen, self._address, CODES in request.GET),
        }

    def _address(self, model: str, *arguments: Any, **query: Any) -> str:
        """Return the address of a list of this app, or of a row's page; empty if this admin does not have it."""
        view = "change" if arguments else "changelist"
        try:
            page = reverse(f"{self.admin_site.name}:django_delayed_tasks_{model}_{view}", args=arguments)
        except NoReverseMatch:
            return ""
        return f"{page}?{urlencode(query)}" if query else page


def _chosen(request: HttpRequest, name: str, choices: Any) -> Any:
    """Return the choice in the address, or the first one."""
    chosen = request.GET.get(name, "")
    return chosen if chosen in choices else next(iter(choices))


PAGES: Final = {
    "no_executor": (Executor, ""),
    "executor_crashed": (Executor, ""),
    "executor_lost": (Executor, ""),
    "queue_paused": (PausedQueue, ""),
    "queue_unserved": (Task, "queue"),
    "late": (Task, "queue"),
    "late_and_growing": (Task, "queue"),
    "code_without_handler": (Task, "code"),
    "limited": (Task, "code"),
    "held_back": (Task, "queue"),
    "pool_empty": (Resource, "pool"),
}
"""For each kind of problem its page and the parameter that selects its subject there, among what is overdue."""


class Linked(NamedTuple):
    """A problem, and the address and the name of the page that it leads to; both are empty if it leads nowhere.

    ``advice`` is empty if a problem of the same kind came before, which has the same.
    """

    problem: Problem
    advice: str
    address: str
    page: str


def linked(problems: Iterable[Problem], address: Address) -> list[Linked]:
    """Return the problems with their pages."""
    found: list[Linked] = []
    for problem in problems:
        is_first = problem.kind not in {one.problem.kind for one in found}
        found.append(Linked(problem, problem.advice if is_first else "", *_page(problem, address)))
    return found


def of_each_kind(problems: Sequence[Problem], most: int) -> list[Problem]:
    """Return the first problems, errors before warnings, and the first one of each kind before a second one."""
    seen: Counter[str] = Counter()
    ranked = []
    for problem in problems:
        ranked.append((LEVELS.index(problem.level), seen[problem.kind], problem))
        seen[problem.kind] += 1
    return [problem for *_, problem in sorted(ranked, key=lambda one: one[:2])[:most]]


def _page(problem: Problem, address: Address) -> tuple[str, str]:
    model, parameter = PAGES.get(problem.kind, (None, ""))
    if model is None:
        return "", ""
    query = {parameter: problem.subject} | ({"due": "overdue"} if model is Task else {}) if parameter else {}
    page = address(str(model._meta.model_name), **query)
    return page, capfirst(str(model._meta.verbose_name_plural)) if page else ""
