"""``@task_handler("code")``: a function as a handler."""

from collections.abc import Callable
from difflib import get_close_matches
from inspect import isroutine
from typing import Any, Protocol, cast

from django_delayed_tasks.exceptions import InvalidHandler, shortened
from django_delayed_tasks.handlers.base import HandleResult, TaskHandler
from django_delayed_tasks.handlers.registry import register_task_handler
from django_delayed_tasks.outcomes import AddResult

ATTRIBUTES = (
    "queue",
    "priority",
    "max_attempts",
    "timeout",
    "keep_history",
    "max_lateness",
    "trigger",
    "atomic",
    "database",
    "pool",
    "max_concurrent",
    "rate",
    "backoff",
    "on_failed",
    "concurrency_key",
)


class DecoratedFunction(Protocol):
    """The decorated function, which has two more attributes."""

    handler: TaskHandler
    schedule: Callable[..., AddResult]

    def __call__(self, task: Any) -> HandleResult: ...


def task_handler(biz_code: str, **attributes: Any) -> Callable[[Callable[[Any], Any]], DecoratedFunction]:
    """Register the decorated function, which takes the task, as the handler of ``biz_code``.

    ``attributes`` are class attributes of :class:`TaskHandler`, and ``backoff(attempt)``, ``on_failed(task, error)``
    and ``concurrency_key(task)`` as functions. The function can be called as before; it gets the attributes
    ``handler`` (the registered instance) and ``schedule(biz_num, when=None, biz_ext=None, **options)``.

    Raises:
        InvalidHandler: an unknown attribute, a wrong value, or a code that another handler has.
    """
    if not isinstance(biz_code, str):
        raise InvalidHandler(f'@task_handler needs a code, as in @task_handler("code"); not {shortened(biz_code)}')
    for name in attributes:
        _refuse_unknown(biz_code, name)

    def decorate(function: Callable[[Any], Any]) -> DecoratedFunction:
        handler = register_task_handler(_class_of(function, biz_code, attributes))
        decorated = cast(DecoratedFunction, function)
        decorated.handler = handler
        decorated.schedule = handler.schedule
        return decorated

    return decorate


def _refuse_unknown(biz_code: str, name: str) -> None:
    if name in ATTRIBUTES:
        return
    close = get_close_matches(name, ATTRIBUTES, n=1)
    hint = f"did you mean {close[0]}?" if close else f"the attributes are {', '.join(ATTRIBUTES)}"
    raise InvalidHandler(f"task_handler({shortened(biz_code)}): unknown attribute {name!r}: {hint}")


def _class_of(function: Any, biz_code: str, attributes: dict[str, Any]) -> type[TaskHandler]:
    if not isroutine(function):
        raise InvalidHandler(
            f"task_handler({shortened(biz_code)}) decorates functions, not {shortened(function)}; "
            "register a class with register_task_handler"
        )
    functions = {"handle": function, **attributes}
    methods = {name: staticmethod(value) for name, value in functions.items() if callable(value)}
    names = {
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        "__doc__": function.__doc__,
    }
    return type(function.__name__, (TaskHandler,), {**attributes, **methods, **names, "biz_code": biz_code})
