"""The way from a handler to the API, which handlers cannot import."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypedDict

from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import BizNum, CancelResult, IfExists, IfExistsName
from django_delayed_tasks.triggers import Trigger

When = datetime | timedelta | None


class ScheduleOptions(TypedDict, total=False):
    """The options of ``schedule``: those of the task, and those of ``add_task``."""

    queue: str | None
    priority: int | None
    trigger: Trigger | str | None
    expires_at: When
    if_exists: IfExists | IfExistsName
    once: bool
    using: str | None


class Facade(NamedTuple):
    """The part of the API that handlers use: the ``Task`` to be added, and functions that take a code and a number."""

    make_task: Callable[..., Any]
    add_task: Callable[..., AddResult]
    cancel: Callable[..., CancelResult]
    reschedule: Callable[..., bool]
    find_task: Callable[..., Any]
    find_runs: Callable[..., Any]


_facade: Facade | None = None


# Handlers are below the store and the API and need no database, so they can import neither `Task` nor
# `add_task`. `api.py`, which is above both, installs its functions here when it is imported; the app's
# `ready()` imports it.
def install(facade: Facade) -> None:
    """Let handlers add and find tasks by these functions."""
    global _facade
    _facade = facade


def facade() -> Facade:
    """Return the functions of the API.

    Raises:
        TaskException: Django is not set up, or this app is not installed.
    """
    if _facade is None:
        problem = "add it to INSTALLED_APPS and call django.setup()"
        raise TaskException(f"django_delayed_tasks is not ready: {problem}")
    return _facade


def schedule(
    biz_code: str,
    biz_num: BizNum,
    when: When = None,
    biz_ext: Any = None,
    *,
    queue: str | None = None,
    priority: int | None = None,
    trigger: Trigger | str | None = None,
    expires_at: When = None,
    if_exists: IfExists | IfExistsName = IfExists.REPLACE,
    once: bool = False,
    using: str | None = None,
) -> AddResult:
    """Add a task of this code."""
    given = {"queue": queue, "priority": priority, "trigger": trigger, "expires_at": expires_at}
    task = facade().make_task(biz_code=biz_code, biz_num=biz_num, when=when, biz_ext=biz_ext, **given)
    return facade().add_task(task, if_exists=if_exists, once=once, using=using)
