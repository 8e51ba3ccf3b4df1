"""Validation of handlers when they are registered."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from asgiref.sync import iscoroutinefunction

from django_delayed_tasks.conf import Reader, readers_of
from django_delayed_tasks.exceptions import InvalidHandler, shortened
from django_delayed_tasks.fields import CODE_LENGTH
from django_delayed_tasks.handlers.attributes import text_up_to
from django_delayed_tasks.handlers.base import TaskHandler


def name_of(handler: TaskHandler | type[TaskHandler]) -> str:
    """Return the dotted name of the handler's class, for messages."""
    cls = handler if isinstance(handler, type) else type(handler)
    return f"{cls.__module__}.{cls.__qualname__}"


def checked(handler: TaskHandler) -> str:
    """Validate the handler and return its code.

    Raises:
        InvalidHandler: the handler cannot be registered; the message names the handler and the attribute.
    """
    code: str = _read(handler, "biz_code", handler.get_biz_code)
    _check(text_up_to(CODE_LENGTH), handler, "biz_code", code)
    _check(_same_as_class(handler), handler, "biz_code", code)
    for attribute, reader in _READERS.items():
        _check(reader, handler, attribute, _read(handler, attribute, partial(getattr, handler, attribute)))
    for method, arguments in _METHODS.items():
        _check(_method(method, arguments), handler, method, getattr(handler, method))
    if problem := _problem_of_ways(handler):
        raise InvalidHandler(f"{name_of(handler)}: {problem}")
    return code


def _read(handler: TaskHandler, attribute: str, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (Exception, SystemExit) as error:
        problem = f"{attribute} cannot be read: {type(error).__name__}: {error}"
        raise InvalidHandler(f"{name_of(handler)}: {problem}") from error


def _check(reader: Reader, handler: TaskHandler, attribute: str, value: Any) -> None:
    try:
        reader(value)
    except ValueError as error:
        given = f"{attribute}()" if attribute in _METHODS and callable(value) else f"{attribute}={shortened(value)}"
        raise InvalidHandler(f"{name_of(handler)}: {given}: {error}") from None


def _same_as_class(handler: TaskHandler) -> Reader:
    cls = type(handler)

    def read(code: Any) -> None:
        if cls.get_biz_code is TaskHandler.get_biz_code and cls.biz_code not in ("", code):
            raise ValueError(f"the class has {cls.biz_code!r}, which schedule() would use; make a subclass")

    return read


def _problem_of_ways(handler: TaskHandler) -> str | None:
    """Return why the handler's run mode is ambiguous or impossible; None if it is not."""
    if handler.atomic and handler.is_async:
        return (
            "atomic=True: its runs are async, and a transaction of Django belongs to a thread, which an async run does"
            " not have; make it a plain method, or call a function with transaction.atomic() by sync_to_async"
        )
    has_handle = type(handler).handle is not TaskHandler.handle
    if not handler.is_batched:
        return None if has_handle else "handle is missing"
    if has_handle:
        return "it has handle_batch, so that its handle would never be called"
    return "handle_batch cannot be combined with pool, max_concurrent or rate" if handler.is_limited else None


def _method(name: str, arguments: Sequence[str]) -> Reader:
    called = ", ".join(arguments)

    def read(value: Any) -> None:
        if not callable(value):
            raise ValueError(f"expected a method, or under @task_handler a function, that takes ({called})")
        if iscoroutinefunction(value) and name not in MAY_BE_ASYNC:
            raise ValueError("expected a plain method, not an async one")
        if inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
            raise ValueError("expected a method that returns, not a generator")
        if not accepts(value, *arguments) and not (arguments == ON_FAILED and accepts_exception(value)):
            raise ValueError(f"cannot be called with ({called}); define it as `{_definition(name, value, arguments)}`")

    return read


def _definition(name: str, method: Any, arguments: Sequence[str]) -> str:
    """Return the first line of a method that takes these arguments, or of a decorated function."""
    if inspect.ismethod(method):
        return f"def {name}({', '.join(['self', *arguments])})"
    own = getattr(method, "__name__", name)
    return f"def {own if own.isidentifier() else name}({', '.join(arguments)})"


def accepts_exception(on_failed: Callable[..., Any]) -> bool:
    """Return whether this ``on_failed`` takes the exception, too; it may be called without."""
    return accepts(on_failed, *ON_FAILED, exception=None)


def accepts(function: Callable[..., Any], *arguments: Any, **named: Any) -> bool:
    """Return whether the function can be called with these arguments, as far as can be read."""
    try:
        # The signature of the wrapper: a decorator may add or remove arguments.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return not named  # it has no signature that can be read
    try:
        signature.bind(*arguments, **named)
    except TypeError:
        return False
    return True


ON_FAILED = ("task", "error")
MAY_BE_ASYNC = ("handle", "handle_batch")

_METHODS = {
    "handle": ("task",),
    "handle_batch": ("tasks",),
    "backoff": ("attempt",),
    "backoff_after": ("task", "exception"),
    "on_failed": ON_FAILED,
    "concurrency_key": ("task",),
}

_READERS = readers_of(TaskHandler)
