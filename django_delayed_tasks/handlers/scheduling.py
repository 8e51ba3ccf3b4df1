"""The way from a handler to ``add_task``, which handlers cannot import."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.outcomes import AddResult

When = datetime | timedelta | None


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
    biz_num: str,
    when: When = None,
    biz_ext: Any = None,
    *,
    queue: str | None = None,
    priority: int | None = None,
    **options: Any,
) -> AddResult:
    """Add a task of this code; ``options`` are those of ``add_task`` (``if_exists``, ``once``, ``using``)."""
    if _facade is None:
        problem = "add it to INSTALLED_APPS and call django.setup()"
        raise TaskException(f"django_delayed_tasks is not ready: {problem}")
    chosen = {"queue": queue, "priority": priority}
    given = {name: value for name, value in chosen.items() if value is not None}
    task = _facade.make_task(biz_code=biz_code, biz_num=biz_num, when=when, biz_ext=biz_ext, **given)
    return _facade.add_task(task, **options)
