"""Checks of the handlers."""

import sys
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

from django_delayed_tasks import conf
from django_delayed_tasks.checks.configuration import chosen_alias
from django_delayed_tasks.exceptions import InvalidHandler, InvalidSetting
from django_delayed_tasks.handlers import TaskHandler, discovery, get_task_handlers, load, middleware
from django_delayed_tasks.handlers.attributes import meant_by
from django_delayed_tasks.handlers.discovery import LoadProblem
from django_delayed_tasks.handlers.validation import name_of

PUBLIC = [name for name in vars(TaskHandler) if not name.startswith("_")]


def check_handlers(**_: Any) -> list[CheckMessage]:
    """Return E006, E007, E015 and E026, for handlers that cannot work, and W001 to W003, for probable mistakes."""
    problems = [_message(problem) for problem in load()]
    return [
        *problems,
        *_broken_middleware(),
        *_atomic_elsewhere(),
        *_misspelt_attributes(),
        *_idle_attributes(),
        *_forgotten_codes(),
    ]


def _message(problem: LoadProblem) -> Error:
    if isinstance(problem.error, InvalidHandler):
        hint = "Until this is fixed, its tasks cannot run, and add_task refuses its code."
        return Error(f"{problem.source}: {problem.error}.", hint=hint, id="django_delayed_tasks.E007")
    error = f"{type(problem.error).__name__}: {problem.error}"
    hint = "The log of the start-up (logger django_delayed_tasks) has the traceback."
    return Error(f"{problem.source} cannot be imported: {error}.", hint=hint, id="django_delayed_tasks.E006")


def _broken_middleware() -> Iterator[CheckMessage]:
    if conf.read(getattr(settings, "DELAYED_TASKS", {}))[1]:
        return  # E001 to E003 say so
    try:
        middleware.load()
    except InvalidSetting as error:
        hint = "Until this is fixed, no executor starts."
        yield Error(f"{error}.", hint=hint, id="django_delayed_tasks.E026")


def _atomic_elsewhere() -> Iterator[CheckMessage]:
    tasks = chosen_alias()
    for handler in get_task_handlers().values():
        if handler.atomic and handler.database != tasks:
            yield Error(
                f"{name_of(handler)} is atomic, but its data is in the database {handler.database!r} and its tasks are "
                f"in {tasks!r}.",
                hint="A transaction covers one database: keep the tasks in the same database as the data "
                "(DELAYED_TASKS['DATABASE']), or set the handler's `database` if it writes elsewhere, or its `atomic` "
                "to False.",
                id="django_delayed_tasks.E015",
            )


def _misspelt_attributes() -> Iterator[CheckMessage]:
    for handler in get_task_handlers().values():
        for name in sorted(_own_names(handler)):
            if meant := meant_by(name, PUBLIC, cutoff=0.8):
                yield Warning(
                    f"{name_of(handler)} has an attribute {name!r}, which has no effect.",
                    hint=f"Did you mean {meant}?",
                    id="django_delayed_tasks.W001",
                )


def _own_names(handler: TaskHandler) -> set[str]:
    classes = [cls for cls in type(handler).__mro__ if cls not in TaskHandler.__mro__]
    names = set(vars(handler)).union(*(vars(cls) for cls in classes))
    return {name for name in names if not name.startswith("_") and not hasattr(TaskHandler, name)}


def _idle_attributes() -> Iterator[CheckMessage]:
    for handler in get_task_handlers().values():
        own = vars(type(handler))  # an attribute of a base class may be meant for some of its subclasses
        for name, missing, is_idle in (
            ("batch_size", "handle_batch", not handler.is_batched),
            ("concurrency_key", "max_concurrent or rate", not (handler.max_concurrent or handler.rate)),
        ):
            if name in own and is_idle:
                yield Warning(
                    f"{name_of(handler)} has {name}, which has no effect without {missing}.",
                    hint=f"Give it {missing}, or remove {name}.",
                    id="django_delayed_tasks.W003",
                )


def _forgotten_codes() -> Iterator[CheckMessage]:
    served = {type(handler) for handler in get_task_handlers().values()}
    for config in apps.get_app_configs():
        module = sys.modules.get(f"{config.name}.{discovery.MODULE}")
        for cls in discovery.handler_classes(module) if module else []:
            if not discovery.has_code(cls) and not cls.__subclasses__() and cls not in served:
                yield Warning(
                    f"{name_of(cls)} has no biz_code, so that it is not registered.",
                    hint="Give it a biz_code, or remove it.",
                    id="django_delayed_tasks.W002",
                )
