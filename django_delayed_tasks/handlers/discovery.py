"""Finds what ``TASK_HANDLERS`` names and what the installed apps' ``task_handlers`` modules define."""

from collections.abc import Iterator
from importlib import import_module
from inspect import isfunction
from types import ModuleType
from typing import Any, NamedTuple, TypeGuard

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import import_string, module_has_submodule

from django_delayed_tasks.exceptions import InvalidHandler, shortened
from django_delayed_tasks.handlers.base import TaskHandler

MODULE = "task_handlers"


class Found(NamedTuple):
    """Something to register, and where it came from."""

    source: str
    handler: TaskHandler | type[TaskHandler]


class LoadProblem(NamedTuple):
    """Something that could not be imported or registered."""

    source: str
    error: Exception


def from_settings() -> Iterator[Found | LoadProblem]:
    """What the dotted paths of ``TASK_HANDLERS`` name: handler classes, instances, decorated functions."""
    paths = getattr(settings, "TASK_HANDLERS", [])
    if not isinstance(paths, list | tuple):
        error = InvalidHandler(f"expected a list of dotted paths, not {shortened(paths)}")
        yield LoadProblem("TASK_HANDLERS", error)
        return
    for path in paths:
        yield _at(path)


def from_apps() -> Iterator[Found | LoadProblem]:
    """The handler classes in the apps' ``task_handlers`` modules (decorators register by themselves)."""
    for config in apps.get_app_configs():
        # Only a missing module is passed over: an ImportError inside an existing one is a defect to report.
        if config.module is None or not module_has_submodule(config.module, MODULE):
            continue
        name = f"{config.name}.{MODULE}"
        try:
            module = import_module(name)
        except Exception as error:
            yield LoadProblem(name, error)
        else:
            yield from (Found(name, cls) for cls in concrete_classes(module))


def concrete_classes(module: ModuleType) -> list[type[TaskHandler]]:
    """The handler classes written in this module that have a code; one without is a base for others."""
    return [cls for cls in handler_classes(module) if has_code(cls)]


def handler_classes(module: ModuleType) -> list[type[TaskHandler]]:
    """The handler classes written in this module, not those it imports."""
    return [value for value in vars(module).values() if is_handler_class(value) and value.__module__ == module.__name__]


def has_code(cls: type[TaskHandler]) -> bool:
    """Whether the class itself says which code it is for (rightly or wrongly)."""
    return bool(cls.biz_code) or cls.get_biz_code is not TaskHandler.get_biz_code


def _at(path: Any) -> Found | LoadProblem:
    source = f"TASK_HANDLERS: {shortened(path)}"
    try:
        return Found(source, _named_by(path))
    except Exception as error:
        return LoadProblem(source, error)


def _named_by(path: Any) -> TaskHandler | type[TaskHandler]:
    if not isinstance(path, str):
        raise InvalidHandler("expected a dotted path, as text")
    value = import_string(path)
    if isfunction(value) and hasattr(value, "handler"):
        value = value.handler  # under @task_handler
    if isinstance(value, TaskHandler) or is_handler_class(value):
        return value
    raise InvalidHandler(f"expected a TaskHandler or a function under @task_handler, not {shortened(value)}")


def is_handler_class(value: Any) -> TypeGuard[type[TaskHandler]]:
    """Whether the value is TaskHandler or a subclass of it."""
    return isinstance(value, type) and issubclass(value, TaskHandler)
