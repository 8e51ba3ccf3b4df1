"""How tests name a code: by its text, by its handler, or by the function that the handler calls."""

from typing import Any

from django_delayed_tasks.handlers.base import TaskHandler, code_of
from django_delayed_tasks.handlers.functions import code_of_function

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
