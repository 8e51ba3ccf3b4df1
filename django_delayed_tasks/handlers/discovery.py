"""Discovery of handlers, by ``TASK_HANDLERS`` and in the apps' ``task_handlers`` modules."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from inspect import isfunction
from types import ModuleType
from typing import Any, NamedTuple, TypeGuard

from django.apps import AppConfig, apps
from django.conf import settings
from django.utils.module_loading import import_string, module_has_submodule

from django_delayed_tasks.exceptions import InvalidHandler, shortened
from django_delayed_tasks.handlers.base import TaskHandler

MODULE = "task_handlers"
FUNCTIONS_MODULE = "tasks"
"""The module of task functions in an app, which is imported if the setting ``TASKS`` names this package's backend."""


class Found(NamedTuple):
    """A handler to register, and where it was found."""

    source: str
    handler: TaskHandler | type[TaskHandler]


class LoadProblem(NamedTuple):
    """A handler or module that could not be imported or registered."""

    source: str
    error: Exception

    @property
    def why(self) -> str:
        """The error in one line."""
        text = str(self.error)
        return (text if isinstance(self.error, InvalidHandler) else f"{type(self.error).__name__}: {text}").partition(
            "\n"
        )[0]


def from_settings() -> Iterator[Found | LoadProblem]:
    """Yield the handler classes, instances and decorated functions that the paths in ``TASK_HANDLERS`` name."""
    paths = getattr(settings, "TASK_HANDLERS", [])
    if not isinstance(paths, list | tuple):
        error = InvalidHandler(f"expected a list of dotted paths, not {shortened(paths)}")
        yield LoadProblem("TASK_HANDLERS", error)
        return
    for path in paths:
        yield _at(path)


def from_apps() -> Iterator[Found | LoadProblem]:
    """Yield the handler classes in the apps' ``task_handlers`` modules (decorated functions register themselves)."""
    with_functions = runs_functions()
    for config in apps.get_app_configs():
        yield from _imported(config, MODULE, concrete_classes)
        if with_functions:
            yield from _imported(config, FUNCTIONS_MODULE, lambda module: [])


def modules() -> list[str]:
    """Return the names of the apps' ``task_handlers`` modules."""
    return [f"{config.name}.{MODULE}" for config in apps.get_app_configs() if _has(config, MODULE)]


def runs_functions() -> bool:
    """Return whether the setting ``TASKS`` names this package's backend, or a subclass of it."""
    for params in (getattr(settings, "TASKS", None) or {}).values():
        with suppress(Exception):  # Django's own check reports it
            if getattr(import_string(params["BACKEND"]), "has_handlers", False):
                return True
    return False


def _imported(
    config: AppConfig, module: str, classes: Callable[[ModuleType], list[type[TaskHandler]]]
) -> Iterator[Found | LoadProblem]:
    # Only a missing module is skipped: an ImportError inside an existing one is an error to report.
    if not _has(config, module):
        return
    name = f"{config.name}.{module}"
    try:
        imported = import_module(name)
    except Exception as error:
        yield LoadProblem(name, error)
    else:
        yield from (Found(name, cls) for cls in classes(imported))


def _has(config: AppConfig, module: str) -> bool:
    return config.module is not None and module_has_submodule(config.module, module)


def concrete_classes(module: ModuleType) -> list[type[TaskHandler]]:
    """Return the handler classes defined in this module that have a code; one without is a base class."""
    return [cls for cls in handler_classes(module) if has_code(cls)]


def handler_classes(module: ModuleType) -> list[type[TaskHandler]]:
    """Return the handler classes defined in this module, without the ones that it imports."""
    return [value for value in vars(module).values() if is_handler_class(value) and value.__module__ == module.__name__]


def has_code(cls: type[TaskHandler]) -> bool:
    """Return whether the class itself defines a code, valid or not."""
    return bool(cls.biz_code) or cls.get_biz_code is not TaskHandler.get_biz_code


def _at(path: Any) -> Found | LoadProblem:
    source = f"TASK_HANDLERS: {shortened(path)}"
    try:
        return Found(source, _named_by(path))
    except Exception as error:
        return LoadProblem(source, error)


def _named_by(path: Any) -> TaskHandler | type[TaskHandler]:
    if not isinstance(path, str):
        raise InvalidHandler("expected a dotted path, as a string")
    value = _value_at(path)
    if isinstance(value, ModuleType):
        raise InvalidHandler(f"this is a module; name a handler in it, as '{path}.send_mail'")
    if isfunction(value) and hasattr(value, "handler"):
        value = value.handler  # a function decorated with @task_handler
    if isinstance(value, TaskHandler) or is_handler_class(value):
        return value
    raise InvalidHandler(f"expected a TaskHandler or a function with @task_handler, not {shortened(value)}")


def _value_at(path: str) -> Any:
    try:
        return import_string(path)
    except ImportError:
        package, _, name = path.rpartition(".")
        if package in sys.modules and module_has_submodule(sys.modules[package], name):
            return ModuleType(path)  # which nothing has imported yet, and which is of no use here
        raise


def is_handler_class(value: Any) -> TypeGuard[type[TaskHandler]]:
    """Return whether the value is TaskHandler or a subclass of it."""
    return isinstance(value, type) and issubclass(value, TaskHandler)
