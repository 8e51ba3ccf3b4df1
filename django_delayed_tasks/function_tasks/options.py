"""The options that this store has for a function, and the four places where they can be set.

The backend's ``OPTIONS`` apply to all functions, and ``OPTIONS["functions"]["dotted.path"]`` to one. They are outranked
by the decorators ``task_options`` and ``periodic``, and these by arguments of ``@task`` (Django 6.1 and the backport).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, TypeVar

from asgiref.sync import iscoroutinefunction
from django.utils.module_loading import import_string

from django_delayed_tasks.handlers import accepts
from django_delayed_tasks.handlers.attributes import meant_by
from django_delayed_tasks.handlers.functions import code_of_function
from django_delayed_tasks.handlers.registry import find, withdraw
from django_delayed_tasks.states import BizNum
from django_delayed_tasks.triggers import Trigger

T = TypeVar("T")

_ATTRIBUTE = "_delayed_task_options"
FUNCTIONS = "functions"
"""The key in ``OPTIONS`` of a dict of options by the dotted paths of functions."""
_IMPORTED = ("backoff", "concurrency_key")
"""The options that settings may give as dotted paths."""
BACKOFF = ("exception", "task_result")
"""The arguments of the option ``backoff``."""


@dataclass(frozen=True)
class FunctionOptions:
    """The options of a function.

    Attributes:
        max_attempts: how often it is tried if it raises.
        backoff: ``backoff(exception, task_result)`` returns the seconds, or a timedelta, until the next attempt; None
            for no further one.
        timeout: how long one run may take, in seconds or as a timedelta.
        max_concurrent: how many runs may be under way in the whole cluster; per ``concurrency_key`` if there is one.
        rate: how many runs may start per period in the whole cluster, such as "100/m"; likewise per key.
        concurrency_key: is called with the function's arguments and returns the key to count by.
        atomic: whether a run and its result are one transaction on the tasks' database.
        expires: how long after it was enqueued, or until when, a run may start.
        trigger: when the function runs again and again, without arguments.
        result_retention: how long results are kept; None for as long as the setting ``KEEP_HISTORY`` says.
    """

    max_attempts: int = 1
    backoff: Callable[..., Any] | None = None
    timeout: timedelta | float | None = None
    max_concurrent: int | None = None
    rate: str | None = None
    concurrency_key: Callable[..., BizNum | None] | None = None
    atomic: bool = False
    expires: datetime | timedelta | None = None
    trigger: Trigger | str | None = None
    result_retention: timedelta | None = None


NAMES = tuple(field.name for field in fields(FunctionOptions))
OF_TASK = tuple(name for name in NAMES if name not in ("trigger", "result_retention"))
"""The options that are fields of a task as well, and so can be arguments of ``@task``."""


def options_of(task: Any, given: Mapping[str, Any]) -> FunctionOptions:
    """Return the options of a task's function; ``given`` are the backend's ``OPTIONS``.

    Raises:
        ValueError: an option is unknown; the message says which.
    """
    if getattr(task, "trigger", None) is not None:
        raise ValueError("a trigger is given with @periodic, or with using()")
    general = {name: value for name, value in given.items() if name != FUNCTIONS}
    own = given.get(FUNCTIONS, {}).get(task.module_path, {})
    merged = {**general, **own, **getattr(task.func, _ATTRIBUTE, {})}
    of_task = ((name, getattr(task, name, None)) for name in OF_TASK)
    merged.update((name, value) for name, value in of_task if value is not None)
    if problems := [problem for name in merged if (problem := problem_of(name))]:
        raise ValueError("; ".join(problems))
    for name in _IMPORTED:
        if isinstance(merged.get(name), str):
            merged[name] = import_string(merged[name])
    backoff = merged.get("backoff")
    if backoff is not None and not (callable(backoff) and accepts(backoff, *BACKOFF)):
        raise ValueError(f"backoff={backoff!r}: expected a function to be called with ({', '.join(BACKOFF)})")
    key = merged.get("concurrency_key")
    if key is not None and (not callable(key) or iscoroutinefunction(key)):
        raise ValueError(f"concurrency_key={key!r}: expected a plain function to be called with the arguments")
    _check_expires(merged.get("expires"))
    return FunctionOptions(**merged)


def _check_expires(value: Any) -> None:
    if isinstance(value, timedelta) and value <= timedelta():
        raise ValueError(f"expires={value!r}: no run could ever start; expected a timedelta above zero")
    if value is not None and not isinstance(value, datetime | timedelta):
        raise ValueError(f"expires={value!r}: expected a timedelta or an aware datetime")


def problems_of(given: Mapping[str, Any]) -> list[str]:
    """Return the problems with the names in a backend's ``OPTIONS``."""
    functions = given.get(FUNCTIONS, {})
    if not isinstance(functions, Mapping) or not all(isinstance(own, Mapping) for own in functions.values()):
        return [f"{FUNCTIONS}={functions!r}: expected a dict of dicts of options, by the dotted paths of functions"]
    of_functions = ((f"{FUNCTIONS}[{path!r}]: ", name) for path, own in functions.items() for name in own)
    named = [*(("", name) for name in given if name != FUNCTIONS), *of_functions]
    return [f"{where}{problem}" for where, name in named if (problem := problem_of(name))]


def paths_of_nothing(given: Mapping[str, Any]) -> list[str]:
    """Return the faults of the dotted paths in a backend's ``OPTIONS`` to whose functions no options apply."""
    return [f"{path!r} {problem}" for path in given.get(FUNCTIONS, {}) if (problem := _problem_of_path(path))]


def _problem_of_path(path: str) -> str:
    try:
        own = getattr(import_string(path), "module_path", path)
    except ImportError:
        return "cannot be imported"
    return "" if own == path else f"is imported from elsewhere: its options are those of {own!r}"


def problem_of(name: str) -> str:
    """Return an error message if the option does not exist, otherwise an empty string."""
    if name in NAMES:
        return ""
    meant = meant_by(str(name), NAMES)
    hint = f"did you mean {meant}?" if meant else f"the options are {', '.join(NAMES)}"
    return f"unknown option {name!r}: {hint}"


def task_options(**options: Any) -> Callable[[T], T]:
    """Decorate a function, or the task that ``@task`` has made of it, with options of :class:`FunctionOptions`.

    Raises:
        ValueError: an option is unknown.
    """
    if problems := problems_of(options):
        raise ValueError("; ".join(problems))

    def decorate(decorated: T) -> T:
        function = getattr(decorated, "func", decorated)
        setattr(function, _ATTRIBUTE, getattr(function, _ATTRIBUTE, {}) | options)
        if function is not decorated:
            _register_again(decorated)
        return decorated

    return decorate


def _register_again(task: Any) -> None:
    if known := find(code_of_function(task.module_path)):
        withdraw(known)
    task.get_backend().validate_task(task)


def periodic(trigger: Trigger | str) -> Callable[[T], T]:
    """Decorate a function, or its task, to run at every time of the trigger, such as ``Cron("0 3 * * *")``.

    The text of a trigger will do.
    Executors create its recurring task when they start; it runs without arguments.
    """
    return task_options(trigger=trigger)
