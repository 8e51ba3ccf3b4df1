"""The way from a handler to ``add_task``, which handlers cannot import."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypedDict, Unpack

from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import BizNum, IfExists, IfExistsName

When = datetime | timedelta | None


class ScheduleOptions(TypedDict, total=False):
    """The options of ``schedule``: those of the task, and those of ``add_task``."""

    queue: str | None
    priority: int | None
    if_exists: IfExists | IfExistsName
    once: bool
    using: str | None


class _Facade(NamedTuple):
    make_task: Callable[..., Any]
    add_task: Callable[..., AddResult]


_facade: _Facade | None = None


# Handlers are below the store and the API and need no database, so they can import neither `Task` nor
# `add_task`. `api.py`, which is above both, installs the two here when it is imported; the app's
# `ready()` imports it.
def install(make_task: Callable[..., Any], add_task: Callable[..., AddResult]) -> None:
    """Let :func:`schedule` make tasks with ``make_task`` and add them with ``add_task``."""
    global _facade
    _facade = _Facade(make_task, add_task)


def schedule(
    biz_code: str,
    biz_num: BizNum,
    when: When = None,
    biz_ext: Any = None,
    **options: Unpack[ScheduleOptions],
) -> AddResult:
    """Add a task of this code."""
    if _facade is None:
        problem = "add it to INSTALLED_APPS and call django.setup()"
        raise TaskException(f"django_delayed_tasks is not ready: {problem}")
    chosen = {"queue": options.pop("queue", None), "priority": options.pop("priority", None)}
    given = {name: value for name, value in chosen.items() if value is not None}
    task = _facade.make_task(biz_code=biz_code, biz_num=biz_num, when=when, biz_ext=biz_ext, **given)
    return _facade.add_task(task, **options)
