"""The problems of the overview and of its banner, each with the page of the admin where it can be mended."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from django.utils.http import urlencode
from django.utils.text import capfirst

from django_delayed_tasks.models import Executor, PausedQueue, Resource, Task
from django_delayed_tasks.stats.findings import LEVELS, Problem

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


def linked(problems: Iterable[Problem], address: Callable[[str], str]) -> list[Linked]:
    """Return the problems with their pages; ``address`` returns the address of a list, empty if there is none."""
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


def _page(problem: Problem, address: Callable[[str], str]) -> tuple[str, str]:
    model, parameter = PAGES.get(problem.kind, (None, ""))
    if model is None or not (page := address(f"{model._meta.model_name}_changelist")):
        return "", ""
    due = {"due": "overdue"} if model is Task else {}
    query = f"?{urlencode({parameter: problem.subject, **due})}" if parameter else ""
    return page + query, capfirst(str(model._meta.verbose_name_plural))
