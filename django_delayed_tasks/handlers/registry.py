"""The handlers that this process knows, by code."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from threading import Lock, RLock
from typing import Any

from django_delayed_tasks.exceptions import InvalidHandler, shortened
from django_delayed_tasks.handlers import discovery
from django_delayed_tasks.handlers.base import TaskHandler, built
from django_delayed_tasks.handlers.discovery import Found, LoadProblem
from django_delayed_tasks.handlers.validation import checked, name_of

logger = logging.getLogger("django_delayed_tasks")

# Two locks: a module that is being imported registers its handlers while its import lock is held, so whoever
# holds the registration lock must never import.
_registration = Lock()
_loading = RLock()

_handlers: dict[str, TaskHandler] = {}
_problems: list[LoadProblem] | None = None


def register_task_handler(handler: TaskHandler | type[TaskHandler]) -> TaskHandler:
    """Make a handler known under its code; a class is instantiated.

    Registering the same one again changes nothing.

    Returns:
        the instance that serves the code.

    Raises:
        InvalidHandler: it has no code or a wrong attribute, or another handler has its code.
    """
    instance = _instance(handler)
    code = checked(instance)
    with _registration:
        known = _handlers.setdefault(code, instance)
    if not _same(known, instance):
        both = f"{name_of(known)} and {name_of(instance)}"
        raise InvalidHandler(f"two handlers for one code, biz_code={code!r}: {both}")
    return known


def get_task_handlers() -> dict[str, TaskHandler]:
    """All known handlers by code; a copy."""
    with _registration:
        return dict(_handlers)


def find(code: str) -> TaskHandler | None:
    """The handler of this code, if it is known here."""
    return _handlers.get(code)


def load() -> list[LoadProblem]:
    """Register what ``TASK_HANDLERS`` names and the apps' ``task_handlers`` modules define.

    Once, however often and from however many threads it is called.

    Returns:
        what could not be loaded; it is logged, and reported by the system checks.
    """
    global _problems
    with _loading:
        if _problems is None:
            _problems = []  # a module that calls load() while it is being loaded gets this far
            _problems = list(_load())
        return list(_problems)


@contextmanager
def preserved() -> Iterator[None]:
    """What is registered, loaded or cleared inside is undone at the end; for tests."""
    global _problems
    before, problems = get_task_handlers(), _problems
    try:
        yield
    finally:
        clear()
        with _registration:
            _handlers.update(before)
        _problems = problems


def clear() -> None:
    """Forget every handler, and that they were loaded; for tests, best inside :func:`preserved`.

    A module that stays imported does not run its decorators again at the next :func:`load`.
    """
    global _problems
    with _registration:
        _handlers.clear()
    _problems = None


def _load() -> Iterator[LoadProblem]:
    for found in chain(discovery.from_settings(), discovery.from_apps()):
        problem = found if isinstance(found, LoadProblem) else _problem_of_registering(found)
        if problem:
            _forget_unimported()
            logger.error("%s: %s", problem.source, problem.error, exc_info=problem.error)
            yield problem


def _problem_of_registering(found: Found) -> LoadProblem | None:
    try:
        if not _serves_by_an_instance(found.handler):
            register_task_handler(found.handler)
    except Exception as error:
        return LoadProblem(found.source, error)
    return None


def _serves_by_an_instance(handler: TaskHandler | type[TaskHandler]) -> bool:
    # A class whose instances the module registered needs no registering, and may be impossible to make.
    return isinstance(handler, type) and any(type(known) is handler for known in get_task_handlers().values())


def _forget_unimported() -> None:
    # A module that failed half-way has registered the handlers above its error. It will be executed anew by
    # the next path that names it, and must then not collide with its former self.
    with _registration:
        for code, handler in list(_handlers.items()):
            if type(handler).__module__ not in sys.modules:
                del _handlers[code]


def _instance(handler: Any) -> TaskHandler:
    if isinstance(handler, TaskHandler):
        return handler
    if discovery.is_handler_class(handler):
        return built(handler)
    raise InvalidHandler(f"{shortened(handler)} is neither a TaskHandler nor a subclass of it")


def _same(known: TaskHandler, new: TaskHandler) -> bool:
    return known is new or (type(known) is type(new) and vars(known) == vars(new))
