"""Functions of the Tasks framework as handlers, and the code that a handler, a function or a text names.

A function's module may not be imported yet in an executor that has claimed a task of it. So the data of each such task
name the function, and the backend that it is to be validated by, which registers the handler.
"""

import hashlib
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any

from django_delayed_tasks.fields import CODE_LENGTH
from django_delayed_tasks.handlers.base import TaskHandler, code_of
from django_delayed_tasks.handlers.named_code import task_named
from django_delayed_tasks.handlers.registry import find, register_task_handler
from django_delayed_tasks.support.logs import Log
from django_delayed_tasks.support.redaction import FUNCTION

if TYPE_CHECKING:
    from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

logger = Log("django_delayed_tasks")

USING = "using"
"""The key of what the caller has changed about the function's task with ``using``."""


def code_of_function(path: str) -> str:
    """Return the code of a function's tasks: its dotted path, or the end of it after a hash if it is too long."""
    if len(path) <= CODE_LENGTH:
        return path
    prefix = f"{hashlib.sha256(path.encode()).hexdigest()[:10]}~"
    return prefix + path[len(prefix) - CODE_LENGTH :]


def is_function(data: Any) -> bool:
    """Return whether this is the data of a function's task."""
    return isinstance(data, dict) and isinstance(data.get(FUNCTION), str)


def find_function(task: "ClaimedTask") -> TaskHandler | None:
    """Return the handler of the function that the task's data name, importing its module; None if there is none."""
    with suppress(ValueError, RecursionError):  # data that cannot be parsed
        data = task.biz_ext
        if isinstance(data, dict) and isinstance(path := data.get(FUNCTION), str):
            using = data.get(USING)
            load_function(task.biz_code, path, using.get("backend") if isinstance(using, dict) else None)
    return find(task.biz_code)


def load_function(code: str, path: str, backend: str | None) -> None:
    """Find the task function at ``path``, if its code is this one, so that its handler is registered.

    A function that has moved is found by its old path, too, if the old module imports it.

    Its module is imported if :mod:`~django_delayed_tasks.handlers.named_code` allows it. Errors are logged: a function
    that cannot be imported here may exist in another deployment.
    """
    if code_of_function(path) != code:
        return
    try:
        function = task_named(path)
        function.using(backend=backend)
        if function.module_path != path:
            _register_moved(code, code_of_function(function.module_path))
    except (Exception, SystemExit) as error:
        logger.warning("%s: this function cannot be used here: %s: %s", path, type(error).__name__, error)


def _register_moved(old: str, new: str) -> None:
    """Register the handler of the code ``new`` for what waits under the ``old`` one, which does not recur by itself."""
    if handler := find(new):
        moved: Any = copy(handler)
        moved.biz_code, moved.trigger = old, None
        register_task_handler(moved)


Code = Any
"""A code, a handler (class, instance or decorated function), or a function of the Tasks framework."""


def code_named(code: Code) -> str:
    """Return the code.

    Raises:
        TypeError: the value is none of what can name one.
    """
    if isinstance(code, type) and issubclass(code, TaskHandler):
        return code_of(code)
    if isinstance(path := getattr(code, "module_path", None), str):
        return code_of_function(path)
    handler = getattr(code, "handler", code)
    if isinstance(handler, TaskHandler):
        return handler.get_biz_code()
    if not isinstance(code, str):
        raise TypeError(f"{code!r} names no code: pass the code, its handler, or the decorated function")
    return code
