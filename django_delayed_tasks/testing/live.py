"""``LiveExecutor``: an executor with threads of its own, for tests of what happens at the same time."""

import time
from collections.abc import Callable
from typing import Any, Final, Self

from django.db.models import Q, QuerySet

from django_delayed_tasks import clock
from django_delayed_tasks.api import database, shutdown, start
from django_delayed_tasks.models import PausedQueue, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.support.durations import listed

OPTIONS: Final[dict[str, Any]] = {"threads": 2, "poll_interval": 0.05, "shutdown_timeout": 10.0}
"""Options that differ from the settings."""


class LiveExecutor:
    """An executor in threads of this process, as a context manager; for a ``TransactionTestCase``.

    Args:
        options: the same as for ``start``; by default with 2 threads.
    """

    def __init__(self, **options: Any) -> None:
        self._options = OPTIONS | options
        self._alias = database(self._options.get("database"))

    def __enter__(self) -> Self:
        """Start it.

        Raises:
            TaskException: the test is a ``TestCase``; this process has an executor already; or freezegun has stopped
                the monotonic clock, by which an executor measures time.
        """
        start(**self._options)
        return self

    def __exit__(self, *error: object) -> None:
        """Stop it, and let current runs end."""
        shutdown()

    def wait(self, timeout: float = 10.0) -> None:
        """Wait until no task is due and none is running.

        Raises:
            AssertionError: that is not so after ``timeout`` seconds.
        """
        self.wait_for(lambda: not self._busy().exists(), timeout, self._said)

    def wait_for(
        self, is_so: Callable[[], object], timeout: float = 10.0, why: Callable[[], str] = lambda: "it is not so"
    ) -> None:
        """Wait until ``is_so()`` is true.

        Raises:
            AssertionError: that is not so after ``timeout`` seconds; ``why()`` is part of the message.
        """
        deadline = clock.monotonic() + timeout
        while not is_so():
            if clock.monotonic() > deadline:
                raise AssertionError(f"after {timeout:g} s {why()}")
            time.sleep(0.01)

    def _busy(self) -> "QuerySet[Task]":
        tasks = Task.objects.using(self._alias)
        paused = PausedQueue.objects.using(self._alias).values("queue")
        is_due = Q(status=TaskStatus.PENDING, claim_at__lte=read_now(self._alias)) & ~Q(queue__in=paused)
        return tasks.filter(Q(status=TaskStatus.RUNNING) | is_due)

    def _said(self) -> str:
        left = [f"{task} ({TaskStatus(task.status).name.lower()})" for task in self._busy()]
        return f"there are tasks left: {listed(left)}"
