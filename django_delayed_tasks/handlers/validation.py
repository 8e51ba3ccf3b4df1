"""Validation of handlers when they are registered."""

import inspect
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from asgiref.sync import iscoroutinefunction

from django_delayed_tasks.conf import LONGEST_KEEPING, as_seconds
from django_delayed_tasks.exceptions import InvalidHandler, InvalidTrigger, shortened
from django_delayed_tasks.handlers.base import TaskHandler
from django_delayed_tasks.handlers.rates import parse_rate
from django_delayed_tasks.states import KeepHistory
from django_delayed_tasks.triggers import Trigger, parse

# The same lengths as in models.py, which handlers do not import; a test compares them.
CODE_LENGTH = 50
QUEUE_LENGTH = 50
POOL_LENGTH = 50
MOST_CONCURRENT = 1000
LARGEST_BATCH = 10_000
RESERVED_POOLS = "ddt."
PRIORITIES = range(-100, 101)
LONGEST_TIMEOUT = 366 * 24 * 3600.0


def name_of(handler: TaskHandler | type[TaskHandler]) -> str:
    """Return the dotted name of the handler's class, for messages."""
    cls = handler if isinstance(handler, type) else type(handler)
    return f"{cls.__module__}.{cls.__qualname__}"


def checked(handler: TaskHandler) -> str:
    """Validate the handler and return its code.

    Raises:
        InvalidHandler: the handler cannot be registered; the message names the handler and the attribute.
    """
    code = handler.get_biz_code()
    _refuse_unless(_text_up_to(CODE_LENGTH), handler, "biz_code", code)
    _refuse_unless(_same_as_class(handler), handler, "biz_code", code)
    for attribute, accepts in _RULES.items():
        _refuse_unless(accepts, handler, attribute, getattr(handler, attribute))
    for method, arguments in _METHODS.items():
        _refuse_unless(_method(method, arguments), handler, method, getattr(handler, method))
    if problem := _problem_of_ways(handler):
        raise InvalidHandler(f"{name_of(handler)}: {problem}")
    return code


def _refuse_unless(accepts: Callable[[Any], str | None], handler: TaskHandler, attribute: str, value: Any) -> None:
    problem = accepts(value)
    if problem:
        raise InvalidHandler(f"{name_of(handler)}: {attribute}={shortened(value)}: {problem}")


def _text_up_to(length: int) -> Callable[[Any], str | None]:
    def accepts(value: Any) -> str | None:
        if not isinstance(value, str) or not value:
            return f"expected a string of 1 to {length} characters"
        if len(value) > length:
            return f"is {len(value)} characters long; {length} at most"
        printable = value.isprintable() and value == value.strip()
        return None if printable else "expected printable characters, and no space at either end"

    return accepts


def problem_of_queue(name: Any) -> str | None:
    """Return why this is no name for a queue; None if it is one."""
    return _text_up_to(QUEUE_LENGTH)(name)


def _same_as_class(handler: TaskHandler) -> Callable[[Any], str | None]:
    cls = type(handler)

    def accepts(code: Any) -> str | None:
        if cls.get_biz_code is not TaskHandler.get_biz_code or cls.biz_code in ("", code):
            return None
        return f"the class has {cls.biz_code!r}, which schedule() would use; make a subclass"

    return accepts


def _priority(value: Any) -> str | None:
    fits = type(value) is int and value in PRIORITIES
    return None if fits else f"expected an int from {PRIORITIES[0]} to {PRIORITIES[-1]}"


def _attempts(value: Any) -> str | None:
    return None if type(value) is int and value >= 1 else "expected an int of at least 1"


def _timeout(value: Any) -> str | None:
    if value is None:
        return None
    try:
        fits = 0 < as_seconds(value) <= LONGEST_TIMEOUT
    except ValueError:
        fits = False
    return None if fits else "expected None, or seconds or a timedelta above 0 and of at most 366 days"


def _trigger(value: Any) -> str | None:
    if value is None or isinstance(value, Trigger):
        return None
    if not isinstance(value, str):
        return "expected a trigger, such as Cron('0 3 * * *'), or its text"
    try:
        parse(value)
    except InvalidTrigger as error:
        return str(error).removeprefix(f"trigger={shortened(value)}: ")
    return None


def _keep_history(value: Any) -> str | None:
    kinds = [str(kind) for kind in KeepHistory]
    fits = timedelta() < value <= LONGEST_KEEPING if isinstance(value, timedelta) else value in kinds
    return None if fits else f"expected one of {', '.join(kinds)}, or a timedelta above zero"


def _pool(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value.startswith(RESERVED_POOLS):
        return f"names that start with {RESERVED_POOLS} are reserved"
    return _text_up_to(POOL_LENGTH)(value)


def _concurrent(value: Any) -> str | None:
    fits = value is None or (type(value) is int and 1 <= value <= MOST_CONCURRENT)
    return None if fits else f"expected None or an int from 1 to {MOST_CONCURRENT}"


def _batch_size(value: Any) -> str | None:
    fits = type(value) is int and 1 <= value <= LARGEST_BATCH
    return None if fits else f"expected an int from 1 to {LARGEST_BATCH:,}"


def _rate(value: Any) -> str | None:
    try:
        if value is not None:
            parse_rate(value)
    except ValueError as error:
        return str(error)
    return None


def _boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else "expected True or False"


def _boolean_or_none(value: Any) -> str | None:
    return None if value is None or isinstance(value, bool) else "expected True, False or None"


def _alias(value: Any) -> str | None:
    return None if isinstance(value, str) and value else "expected the alias of a database"


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


def _method(name: str, arguments: Sequence[str]) -> Callable[[Any], str | None]:
    def accepts(value: Any) -> str | None:
        if not callable(value):
            called = ", ".join(arguments)
            return f"expected a method, or under @task_handler a function, that takes ({called})"
        if iscoroutinefunction(value) and name not in MAY_BE_ASYNC:
            return "expected a plain method, not an async one"
        if inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
            return "expected a method that returns, not a generator"
        fits = takes(value, *arguments) or (arguments == ON_FAILED and takes(value, *arguments, exception=None))
        return None if fits else f"expected to be called with ({', '.join(arguments)})"

    return accepts


def takes_exception(on_failed: Callable[..., Any]) -> bool:
    """Return whether this ``on_failed`` takes the exception, too; it may be called without."""
    return takes(on_failed, *ON_FAILED, exception=None)


def takes(function: Callable[..., Any], *arguments: str, **named: Any) -> bool:
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

_RULES: dict[str, Callable[[Any], str | None]] = {
    "queue": _text_up_to(QUEUE_LENGTH),
    "priority": _priority,
    "max_attempts": _attempts,
    "timeout": _timeout,
    "max_lateness": _timeout,
    "trigger": _trigger,
    "keep_history": _keep_history,
    "keep_data": _boolean_or_none,
    "log": _boolean,
    "atomic": _boolean,
    "database": _alias,
    "pool": _pool,
    "max_concurrent": _concurrent,
    "rate": _rate,
    "batch_size": _batch_size,
}
