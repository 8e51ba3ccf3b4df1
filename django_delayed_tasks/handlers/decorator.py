"""``@task_handler("code")``: a function as a handler."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from inspect import isroutine
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

from django_delayed_tasks.exceptions import InvalidHandler, shortened
from django_delayed_tasks.handlers.attributes import meant_by
from django_delayed_tasks.handlers.base import TaskHandler
from django_delayed_tasks.handlers.registry import register_task_handler
from django_delayed_tasks.handlers.scheduling import METHODS, Scheduling
from django_delayed_tasks.states import BizNum, KeepHistory
from django_delayed_tasks.triggers import Trigger

if TYPE_CHECKING:
    from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask


class HandlerOptions(TypedDict, total=False):
    """The options of ``@task_handler``: the attributes and methods of :class:`TaskHandler` with the same names."""

    queue: str
    priority: int
    max_attempts: int
    timeout: timedelta | float | None
    keep_history: KeepHistory | timedelta | Literal["all", "failures", "none"]
    keep_data: bool | None
    log: bool
    max_lateness: timedelta | float | None
    trigger: Trigger | str | None
    atomic: bool
    database: str
    pool: str | None
    max_concurrent: int | None
    rate: str | None
    backoff: Callable[[int], timedelta]
    backoff_after: Callable[["ClaimedTask", BaseException], timedelta | None]
    on_failed: Callable[..., object]
    concurrency_key: Callable[["ClaimedTask"], BizNum | None]


ATTRIBUTES = tuple(HandlerOptions.__annotations__)


class DecoratedFunction(Scheduling):
    """The type of a decorated function: it has its handler, and methods of this."""

    handler: TaskHandler

    def __call__(self, task: Any) -> Any: ...


def task_handler(
    biz_code: str, **attributes: Unpack[HandlerOptions]
) -> Callable[[Callable[["ClaimedTask"], Any]], DecoratedFunction]:
    """Register the decorated function, which takes the task, as the handler of ``biz_code``.

    ``attributes`` are class attributes of :class:`TaskHandler`, and, as functions, ``backoff(attempt)``,
    ``backoff_after(task, exception)``, ``on_failed(task, error)``, which may take ``exception=None`` as well, and
    ``concurrency_key(task)``. The function can be called as before; it gets the attributes
    ``handler`` (the registered instance), ``schedule(biz_num, when=None, biz_ext=None, **options)``, ``cancel``,
    ``reschedule``, ``get``, ``runs`` and the async versions, ``aschedule`` and so on, which are the handler's.

    Raises:
        InvalidHandler: an unknown attribute, a wrong value, or a code that another handler has.
    """
    if not isinstance(biz_code, str):
        raise InvalidHandler(f'@task_handler needs a code, as in @task_handler("code"); not {shortened(biz_code)}')
    for name in attributes:
        _refuse_unknown(biz_code, name)

    def decorate(function: Callable[["ClaimedTask"], Any]) -> DecoratedFunction:
        handler = register_task_handler(_class_of(function, biz_code, attributes))
        decorated: Any = function
        decorated.handler = handler
        for name in METHODS:
            setattr(decorated, name, getattr(handler, name))
        return cast(DecoratedFunction, decorated)

    return decorate


def _refuse_unknown(biz_code: str, name: str) -> None:
    if name in ATTRIBUTES:
        return
    meant = meant_by(name, ATTRIBUTES)
    hint = f"did you mean {meant}?" if meant else f"the attributes are {', '.join(ATTRIBUTES)}"
    raise InvalidHandler(f"task_handler({shortened(biz_code)}): unknown attribute {name!r}: {hint}")


def _class_of(function: Any, biz_code: str, attributes: Mapping[str, Any]) -> type[TaskHandler]:
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
