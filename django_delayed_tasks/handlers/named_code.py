"""The one rule for code that a row names: which module may be imported because of that.

A row may have been written by hand, or by a user of another process. What it names is used if the process has already
imported it; otherwise its module is imported only if that belongs to an installed app or to ``FUNCTION_MODULES``.
"""

import sys
from importlib import import_module
from typing import Any

from django.apps import apps

from django_delayed_tasks.conf import settings

_TASKS = {("django.tasks.base", "Task"), ("django_tasks.base", "Task")}


def task_named(path: str) -> Any:
    """Return the task of the Tasks framework at this path, which may be of a function that is defined elsewhere.

    Raises:
        ImportError: there is none, or its module must not be imported.
    """
    found = _named(path)
    if not any((cls.__module__, cls.__name__) in _TASKS for cls in type(found).__mro__):
        raise ImportError(f"{path} is no function decorated with @task")
    return found


def exception_named(path: str) -> type[BaseException]:
    """Return the class of exceptions at this path.

    Raises:
        ImportError: there is nothing, or its module must not be imported.
        ValueError: there is something else.
    """
    found = _named(path)
    if not isinstance(found, type) or not issubclass(found, BaseException):
        raise ValueError(f"{path!r} does not reference a valid exception.")  # as Django's own TaskError says
    return found


def _named(path: str) -> Any:
    module, _, name = path.rpartition(".")
    if module not in sys.modules:
        _refuse_to_import(module)
    found = vars(import_module(module))  # not its attributes: a module's __getattr__ may import others
    if name not in found:
        raise ImportError(f"{module} has no {name}")
    return found[name]


def _refuse_to_import(module: str) -> None:
    if not all(part.isidentifier() for part in module.split(".")):
        raise ImportError(f"{module!r} is no name of a module")
    trusted = (*(config.name for config in apps.get_app_configs()), *settings.FUNCTION_MODULES)
    if not any(module == package or module.startswith(f"{package}.") for package in trusted):
        raise ImportError(f"{module} is neither in an installed app nor in DELAYED_TASKS['FUNCTION_MODULES']")
