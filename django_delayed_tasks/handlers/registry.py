"""The handlers that this process knows, by code."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from threading import Lock, RLock
from typing import Any

from django_delayed_tasks.exceptions import InvalidHandler, shortened
from django_delayed_tasks.handlers import discovery
from django_delayed_tasks.handlers.base import TaskHandler, built
from django_delayed_tasks.handlers.discovery import Found, LoadProblem
from django_delayed_tasks.handlers.validation import checked, name_of
from django_delayed_tasks.support.logs import Log

logger = Log("django_delayed_tasks")

# Two locks: a module that is being imported registers its handlers while its import lock is held, so a thread that
# holds the registration lock must never import.
_registration = Lock()
_loading = RLock()

_handlers: dict[str, TaskHandler] = {}
_classes: Counter[type[TaskHandler]] = Counter()
async_codes: set[str] = set()
"""The codes whose handlers run on the event loop."""
_problems: list[LoadProblem] | None = None


def register_task_handler(handler: TaskHandler | type[TaskHandler]) -> TaskHandler:
    """Register a handler under its code; a class is instantiated.

    Registering the same handler again changes nothing.

    Returns:
        The instance that runs the tasks of this code.

    Raises:
        InvalidHandler: the handler has no code or an invalid attribute, or another handler has its code.
    """
    instance = _instance(handler)
    code = checked(instance)
    vars(instance)["biz_code"] = code  # from now on get_biz_code(), which a project may have overridden, is not asked
    with _registration:
        known = _handlers.get(code)
        if known is None:
            _put(code, instance)
    if known is None:
        return instance
    if not _same(known, instance):
        both = f"{name_of(known)} and {name_of(instance)}"
        raise InvalidHandler(f"two handlers have the same code, biz_code={code!r}: {both}")
    return known


def withdraw(handler: TaskHandler) -> None:
    """Remove a handler from the registry, so that another one can be registered for its code."""
    with _registration:
        code = handler.get_biz_code()
        if _handlers.get(code) is handler:
            _drop(code)


def get_task_handlers() -> dict[str, TaskHandler]:
    """Return a dictionary of all registered handlers by code; it is a copy."""
    with _registration:
        return dict(_handlers)


find: Callable[[str], TaskHandler | None] = _handlers.get
"""Return the handler of this code, or None if this process has none."""


def _put(code: str, handler: TaskHandler) -> None:
    _handlers[code] = handler
    _classes[type(handler)] += 1
    if handler.is_async:
        async_codes.add(code)


def _drop(code: str) -> None:
    _classes[type(_handlers.pop(code))] -= 1
    async_codes.discard(code)


def load() -> list[LoadProblem]:
    """Register the handlers that ``TASK_HANDLERS`` names or the apps' ``task_handlers`` modules define.

    Only the first call does so; later calls, from any thread, return the same problems.

    Returns:
        The handlers and modules that could not be loaded; they are logged, and reported by the system checks.
    """
    global _problems
    with _loading:
        if _problems is None:
            _problems = []  # a module that calls load() while it is being loaded gets this far
            _problems = list(_load())
        return list(_problems)


def load_problems() -> list[LoadProblem]:
    """Return the problems of :func:`load`; none before it has ended, for which this does not wait."""
    return list(_problems or ())


@contextmanager
def preserved() -> Iterator[None]:
    """Undo at the end of the block whatever was registered, loaded or cleared in it; for tests."""
    global _problems
    before, problems = get_task_handlers(), _problems
    try:
        yield
    finally:
        clear()
        with _registration:
            for code, handler in before.items():
                _put(code, handler)
        _problems = problems


def clear() -> None:
    """Remove all handlers, and let them be loaded again; for tests, best inside :func:`preserved`.

    A module that stays imported does not run its decorators again at the next :func:`load`.
    """
    global _problems
    with _registration:
        for known in (_handlers, _classes, async_codes):
            known.clear()
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
    # A class whose instances the module registered needs no registration, and its constructor may need arguments.
    return isinstance(handler, type) and _classes[handler] > 0


def _forget_unimported() -> None:
    # A module that failed half-way has registered the handlers above its error. The next path that names it
    # executes it again, and its handlers must not conflict with those of the first time.
    with _registration:
        for code, handler in list(_handlers.items()):
            if type(handler).__module__ not in sys.modules:
                _drop(code)


def _instance(handler: Any) -> TaskHandler:
    if isinstance(handler, TaskHandler):
        return handler
    if discovery.is_handler_class(handler):
        return built(handler)
    raise InvalidHandler(f"{shortened(handler)} is neither a TaskHandler nor a subclass of it")


def _same(known: TaskHandler, new: TaskHandler) -> bool:
    return known is new or (type(known) is type(new) and vars(known) == vars(new))
