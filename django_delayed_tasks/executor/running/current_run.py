"""A current run, shared by the thread that performs it and by the watchdog, which may take it away."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from django_delayed_tasks import clock
from django_delayed_tasks.executor.room.lines import Batch
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

Lent = list[tuple[ClaimedTask, Any]]
"""Tasks, each with the resource that was lent to it."""


@dataclass(slots=True, eq=False)
class CurrentRun:
    """A current run of one task, or of a batch, in a thread or on the event loop.

    Attributes:
        began: the monotonic second at which it began, or was handed to its thread.
        is_abandoned: whether its tasks were taken from it.
        has_begun: whether it has begun.
        handed_over_at: the monotonic second at which its worker handed over how its tasks ended; None before that.
        handed_over: those of its tasks that others run.
        interrupted: the error that the run is to end with, because this process cancels it; None before that.
        is_waiting: whether it waits for its turn on the event loop.
        call: the call of its handler on the event loop; None before and after that.
    """

    tasks: Batch
    began: float
    is_abandoned: bool = False
    has_begun: bool = False
    handed_over_at: float | None = None
    handed_over: Sequence[ClaimedTask] = ()
    interrupted: BaseException | None = None
    is_waiting: bool = True
    call: "asyncio.Task[Any] | None" = None
    _lock: Lock = field(default_factory=Lock, repr=False)

    def begin(self) -> bool:
        """Note that the run begins now; return False if it was abandoned before."""
        with self._lock:
            self.began = clock.monotonic()
            self.has_begun = True
            return not self.is_abandoned

    def abandon(self) -> bool:
        """Take its tasks from the run: what it hands over from now on does not count.

        Return False if it has handed over how they ended.
        """
        with self._lock:
            self.is_abandoned = self.handed_over_at is None
            return self.is_abandoned

    @property
    def all_tasks(self) -> Sequence[ClaimedTask]:
        """Its tasks, and those that it has handed over to others."""
        return [*self.tasks, *self.handed_over]

    @property
    def seconds(self) -> float:
        """The seconds since it began, or since it handed over how its tasks ended: its thread may hang after that."""
        return clock.monotonic() - (self.handed_over_at or self.began)

    @property
    def owns_tasks(self) -> bool:
        """Whether it still has tasks to be settled, and they were not taken from it."""
        return bool(self.tasks) and not self.is_abandoned and self.handed_over_at is None

    def __str__(self) -> str:
        tasks = self.all_tasks
        more = f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
        return f"{tasks[0]}{more}"

    @property
    def with_age(self) -> str:
        """Its name, and for how long it has run."""
        return f"{self} (for {clock.monotonic() - self.began:.0f} s)"

    def hand_over(self, tasks: Batch) -> bool:
        """Take tasks out of a run that has ended, to be run by others; return False if it was abandoned before."""
        with self._lock:
            if self.is_abandoned:
                return False
            self.handed_over_at = clock.monotonic()
            if tasks:
                self.handed_over, others = tasks, set(tasks)
                self.tasks = [task for task in self.tasks if task not in others]
            return True
