"""What callers pass, compared with the handlers of this process."""

from typing import Any

from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask, UnknownCode
from django_delayed_tasks.handlers import TaskHandler, find, get_task_handlers
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.validation import (
    Schedule,
    valid_identity,
    valid_json,
    valid_once,
    valid_priority,
    valid_queue,
    valid_trigger,
    valid_when,
)


def accepted(task: Any, once: bool = False) -> Schedule:
    """Return the task as it will be written, with its handler's queue and priority where the task has none.

    Raises:
        InvalidTask, UnknownCode: the task is not accepted.
    """
    if not isinstance(task, Task):
        raise InvalidTask("task", task, "must be a Task")
    code, num = valid_identity(task.biz_code, task.biz_num)
    handler = find(code)
    if handler is None and not settings.ALLOW_UNKNOWN_CODES:
        known = ", ".join(sorted(get_task_handlers())) or "none"
        hint = "handlers are found in the task_handlers modules of INSTALLED_APPS and in TASK_HANDLERS"
        raise UnknownCode("biz_code", code, f"no handler is registered for it (known: {known}); {hint}")
    defaults = handler or TaskHandler
    trigger = valid_trigger(task.trigger_text)
    return Schedule(
        code,
        num,
        valid_when(task.when),
        valid_json(task.biz_ext, settings.MAX_BIZ_EXT_BYTES),
        valid_queue(task.queue or defaults.queue),
        valid_priority(defaults.priority if task.priority is None else task.priority),
        None if trigger is None else str(trigger),
        valid_when(task.expires_at, "expires_at"),
        valid_once(once, trigger),
    )
