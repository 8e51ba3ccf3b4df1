"""What stands in for the backends that the suites are written for, and for their class of tests.

The suites expect that the dummy backend keeps what is enqueued, and that the immediate backend has run it when
``enqueue`` returns. Here, the first is this package's backend, whose rows are the results. The second is it, too, with
an executor that does what is due, with all its threads, within ``enqueue``.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connections
from django.test import TransactionTestCase

from django_delayed_tasks.backends.tasks import DelayedTasksBackend
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.function_tasks.ids import id_of
from django_delayed_tasks.models import Task, TaskRun

TIMEOUT = 60.0
"""Seconds that an executor may take for what one test has enqueued."""


class Queued(DelayedTasksBackend):
    """The backend as it is, with the dummy backend's ways to look at what was enqueued and to forget it."""

    def get_result(self, result_id: str) -> Any:
        return anywhere(super().get_result, result_id)

    @property
    def results(self) -> list[Any]:
        """All results, the oldest first."""
        found: list[Any] = anywhere(self._all)
        return found

    def _all(self) -> list[Any]:
        keys = Task.objects.order_by("id").values_list("id", "biz_num")
        return [self.get_result(id_of(*key)) for key in keys]

    def clear(self) -> None:
        """Forget everything."""
        Task._base_manager.all().delete()
        TaskRun._base_manager.all().delete()


class Executed(DelayedTasksBackend):
    """The backend with an executor in ``enqueue``."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        drain()
        result.refresh()
        return result


class Committing(TransactionTestCase):
    """In place of the suites' classes of tests: an executor's threads see only what is committed."""


def anywhere(call: Callable[..., Any], *args: Any) -> Any:
    """Call it in a thread of its own if this is one with an event loop: the dummy backend answers from memory there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call(*args)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_closing, call, *args).result()


def _closing(call: Callable[..., Any], *args: Any) -> Any:
    try:
        return call(*args)
    finally:
        connections.close_all()


def drain() -> None:
    """Let an executor do all that is due."""
    executor = Executor(ExecutorOptions(name="conformance", threads=2, poll_interval=0.01, drain=True))
    executor.start()
    try:
        if not executor.drained.wait(TIMEOUT):
            raise TimeoutError("the executor is not done")
    finally:
        executor.stop()
