"""Handlers: the base class that a project extends, the decorator, and the registry."""

from django_delayed_tasks.handlers.base import HandleResult, TaskHandler, exponential
from django_delayed_tasks.handlers.decorator import task_handler
from django_delayed_tasks.handlers.functions import code_named, find_function
from django_delayed_tasks.handlers.named_code import task_named
from django_delayed_tasks.handlers.registry import (
    find,
    get_task_handlers,
    load,
    load_problems,
    register_task_handler,
)
from django_delayed_tasks.handlers.validation import accepts, accepts_exception

__all__ = [
    "HandleResult",
    "TaskHandler",
    "accepts",
    "accepts_exception",
    "code_named",
    "exponential",
    "find",
    "find_function",
    "get_task_handlers",
    "load",
    "load_problems",
    "register_task_handler",
    "task_handler",
    "task_named",
]
