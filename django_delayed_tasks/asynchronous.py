"""The facade for async code: each function does what its namesake in ``api.py`` does, in a coroutine.

The namesake is called in the thread in which Django executes the queries of async code, and commits by itself: a
transaction does not span two calls.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from django_delayed_tasks import api

__all__ = [
    "aadd_task",
    "aadd_tasks",
    "acancel_task",
    "acancel_tasks",
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
]

P = ParamSpec("P")
R = TypeVar("R")


def _asynchronous(function: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    call = sync_to_async(function, thread_sensitive=True)

    @wraps(function)
    async def in_thread(*args: P.args, **kwargs: P.kwargs) -> R:
        return await call(*args, **kwargs)

    in_thread.__name__ = in_thread.__qualname__ = f"a{function.__name__}"
    in_thread.__module__ = __name__
    in_thread.__doc__ = f"Like :func:`{function.__name__}`, to be awaited."
    return in_thread


aadd_task = _asynchronous(api.add_task)
aadd_tasks = _asynchronous(api.add_tasks)
acancel_task = _asynchronous(api.cancel_task)
acancel_tasks = _asynchronous(api.cancel_tasks)
adelete_tasks = _asynchronous(api.delete_tasks)
aforget = _asynchronous(api.forget)
aget_runs = _asynchronous(api.get_runs)
aget_tasks_by_code = _asynchronous(api.get_tasks_by_code)
apause_queue = _asynchronous(api.pause_queue)
apause_task = _asynchronous(api.pause_task)
apreview = _asynchronous(api.preview)
areschedule_task = _asynchronous(api.reschedule_task)
areschedule_tasks = _asynchronous(api.reschedule_tasks)
aresume_queue = _asynchronous(api.resume_queue)
aresume_task = _asynchronous(api.resume_task)
aretry_tasks = _asynchronous(api.retry_tasks)
