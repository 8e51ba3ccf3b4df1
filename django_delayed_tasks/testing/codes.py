"""How tests name a code: by its text, its handler, or the function that the handler calls."""

from typing import Any

from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.handlers.base import code_of
from django_delayed_tasks.handlers.functions import code_of_function
from django_delayed_tasks.store.validation import valid_code

Code = Any
"""A code, a handler (class, instance or decorated function), or a function task of the Tasks framework."""


def code_named(code: Code) -> str:
    """Return the code.

    Raises:
        InvalidTask: it is none of what can name one.
    """
    if isinstance(code, type) and issubclass(code, TaskHandler):
        return code_of(code)
    if isinstance(path := getattr(code, "module_path", None), str):
        return code_of_function(path)
    handler = getattr(code, "handler", code)
    return handler.get_biz_code() if isinstance(handler, TaskHandler) else valid_code(code)
