"""Delayed tasks for Django: make things happen later, reliably, on the project's own database.

The public names are loaded when they are first used: Django imports this package before the app registry is
ready, when models cannot be imported yet.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django_delayed_tasks.api import (
        TaskException,
        TaskHandler,
        add_task,
        add_tasks,
        cancel_task,
        cancel_tasks,
        delete_tasks,
        forget,
        get_runs,
        get_task_handlers,
        get_tasks_by_code,
        pause_queue,
        pause_task,
        preview,
        register_task_handler,
        reschedule_task,
        reschedule_tasks,
        resume_queue,
        resume_task,
        retry_tasks,
        shutdown,
        start,
    )
    from django_delayed_tasks.asynchronous import (
        aadd_task,
        aadd_tasks,
        acancel_task,
        acancel_tasks,
        adelete_tasks,
        aforget,
        aget_runs,
        aget_tasks_by_code,
        apause_queue,
        apause_task,
        apreview,
        areschedule_task,
        areschedule_tasks,
        aresume_queue,
        aresume_task,
        aretry_tasks,
    )
    from django_delayed_tasks.function_tasks.options import periodic, task_options
    from django_delayed_tasks.handlers.decorator import task_handler
    from django_delayed_tasks.models import Task, TaskRun
    from django_delayed_tasks.outcomes import AddResult, Done, Fail, Reschedule, Retry
    from django_delayed_tasks.states import AddAction, CancelResult
    from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
    from django_delayed_tasks.store.claiming.preview import PlannedRun
    from django_delayed_tasks.triggers import Cron, Interval, Once, Trigger

__version__ = "0.1.0"

__all__ = [
    "AddAction",
    "AddResult",
    "CancelResult",
    "ClaimedTask",
    "Cron",
    "Done",
    "Fail",
    "Interval",
    "Once",
    "PlannedRun",
    "Reschedule",
    "Retry",
    "Task",
    "TaskException",
    "TaskHandler",
    "TaskRun",
    "Trigger",
    "__version__",
    "aadd_task",
    "aadd_tasks",
    "acancel_task",
    "acancel_tasks",
    "add_task",
    "add_tasks",
    "adelete_tasks",
    "aforget",
    "aget_runs",
    "aget_tasks_by_code",
    "apause_queue",
    "apause_task",
    "apreview",
    "areschedule_task",
    "areschedule_tasks",
    "aresume_queue",
    "aresume_task",
    "aretry_tasks",
    "cancel_task",
    "cancel_tasks",
    "delete_tasks",
    "forget",
    "get_runs",
    "get_task_handlers",
    "get_tasks_by_code",
    "pause_queue",
    "pause_task",
    "periodic",
    "preview",
    "register_task_handler",
    "reschedule_task",
    "reschedule_tasks",
    "resume_queue",
    "resume_task",
    "retry_tasks",
    "shutdown",
    "start",
    "task_handler",
    "task_options",
]

_HOMES = {
    "api": (
        "add_task add_tasks cancel_task reschedule_task delete_tasks get_tasks_by_code get_runs start shutdown"
        " forget pause_task resume_task pause_queue resume_queue cancel_tasks preview reschedule_tasks retry_tasks"
    ),
    "asynchronous": (
        "aadd_task aadd_tasks acancel_task acancel_tasks adelete_tasks aforget aget_runs aget_tasks_by_code"
        " apause_queue apause_task apreview areschedule_task areschedule_tasks aresume_queue aresume_task aretry_tasks"
    ),
    "exceptions": "TaskException",
    "function_tasks.options": "periodic task_options",
    "handlers": "TaskHandler get_task_handlers register_task_handler task_handler",
    "models": "Task TaskRun",
    "outcomes": "AddResult Done Fail Reschedule Retry",
    "states": "AddAction CancelResult",
    "store.claiming.claimed_task": "ClaimedTask",
    "store.claiming.preview": "PlannedRun",
    "triggers": "Cron Interval Once Trigger",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
