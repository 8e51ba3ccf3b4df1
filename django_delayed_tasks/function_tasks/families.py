"""The two families of the Tasks framework: ``django.tasks``, and its backport, the package ``django_tasks``.

Both may be in use in one process, with one ``TASKS`` setting: code that imports the backport expects its exceptions and
signals also on a Django that has the framework.
"""

import sys
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

CORE, BACKPORT = "django.tasks", "django_tasks"


@dataclass(frozen=True)
class Family:
    """The names that one family uses; ``root`` is the package that all of it is in.

    Each is imported when it is first asked for, and then known: a run asks for several.
    """

    root: str

    def _module(self, name: str) -> ModuleType:
        return import_module(f"{self.root}.{name}")

    @cached_property
    def backend_class(self) -> Any:
        """The base class of backends."""
        return self._module("backends.base").BaseTaskBackend

    @cached_property
    def base(self) -> Any:
        """The module with the classes of tasks, results, errors and contexts."""
        return self._module("base")

    @cached_property
    def signals(self) -> Any:
        """The module with the signals."""
        return self._module("signals")

    @cached_property
    def invalid_task(self) -> type[Exception]:
        """The exception for a task that the backend cannot run."""
        exceptions = self._module("exceptions")
        found: type[Exception] = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError
        return found

    @cached_property
    def result_does_not_exist(self) -> type[Exception]:
        """The exception to raise when no result has the id."""
        found: type[Exception] = self._module("exceptions").TaskResultDoesNotExist
        return found

    @cached_property
    def normalize_json(self) -> Any:
        """The function that turns a value into one that JSON has, or raises TypeError."""
        return import_module("django.utils.json" if self.root == CORE else f"{self.root}.utils").normalize_json

    @cached_property
    def task_class(self) -> Any:
        """This package's class of tasks of this family."""
        return self._own.DelayedTask

    @cached_property
    def result_class(self) -> Any:
        """This package's class of results of this family."""
        return self._own.StoredResult

    @cached_property
    def purged_result(self) -> Any:
        """This package's class of results whose value is no longer kept, of this family."""
        return self._own.PurgedResult

    @cached_property
    def error_class(self) -> Any:
        """This package's class of errors in results of this family."""
        return self._own.StoredError

    @property
    def _own(self) -> Any:
        name = "core_task" if self.root == CORE else "backport_task"
        return import_module(f"django_delayed_tasks.function_tasks.{name}")


@cache
def families() -> tuple[Family, ...]:
    """Return the families that can be imported, Django's own first."""
    return tuple(Family(root) for root in (CORE, BACKPORT) if find_spec(root))


def family_of(task: Any) -> Family:
    """Return the family of a task."""
    task_class: Any = type(task)
    return _family_of_class(task_class)


@cache
def _family_of_class(task_class: Any) -> Family:
    roots = [cls.__module__ for cls in task_class.__mro__]
    for family in families():
        if any(name == f"{family.root}.base" for name in roots):
            return family
    return families()[0]


def asking_family() -> Family:
    """Return the family whose handler of backends is creating one: the nearest caller's in either package."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        package = frame.f_globals.get("__name__", "")
        for family in families():
            if package == family.root or package.startswith(f"{family.root}."):
                return family
    return families()[0]
