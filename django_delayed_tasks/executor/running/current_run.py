"""A current run, shared by the thread that performs it and by the watchdog, which may take it away."""

import asyncio
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

Batch = list[ClaimedTask]
"""Tasks that are run in one call; most have only one."""


@dataclass(slots=True, eq=False)
class CurrentRun:
    """A current run of one task, or of a batch, in a thread or on the event loop.

    Attributes:
        began: the monotonic second at which it began, or was handed to its thread.
        has_begun: whether it has begun.
        is_settled: whether its worker has handed over how its tasks ended.
        interrupted: the error that the run is to end with, because this process cancels it; None before that.
        is_waiting: whether it waits for its turn on the event loop.
        call: the call of its handler on the event loop; None before and after that.
    """

    tasks: Batch
    began: float
    is_abandoned: bool = False
    has_begun: bool = False
    is_settled: bool = False
    interrupted: BaseException | None = None
    is_waiting: bool = True
    call: "asyncio.Task[Any] | None" = None
    _has_ended: bool = False
    _lock: Lock = field(default_factory=Lock, repr=False)

    def begin(self) -> bool:
        """Note that the run begins now; return False if it was abandoned before."""
        with self._lock:
            self.began = clock.monotonic()
            self.has_begun = True
            return not self.is_abandoned

    def end(self) -> bool:
        """Note that the worker has done with the run; return False if it was abandoned before."""
        with self._lock:
            self._has_ended = True
            return not self.is_abandoned

    def abandon(self) -> bool:
        """Take the run from its worker: what the worker hands over from now on does not count.

        Return False if the worker has done with it. It may hang after it has handed over how the tasks ended.
        """
        with self._lock:
            self.is_abandoned = not self._has_ended
            return self.is_abandoned

    @property
    def counts(self) -> bool:
        """Whether it still has tasks to be settled, and they were not taken from it."""
        return bool(self.tasks) and not self.is_abandoned and not self.is_settled

    def __str__(self) -> str:
        tasks = self.tasks
        more = f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
        name = f"{tasks[0]}{more}" if tasks else "a run that has just ended"
        return f"{name} (for {clock.monotonic() - self.began:.0f} s)"

    def hand_over(self, tasks: Batch) -> bool:
        """Take tasks out of a run that has ended, to be run by others; return False if it was abandoned before."""
        with self._lock:
            if self.is_abandoned:
                return False
            self.is_settled = True
            if tasks:
                handed = set(tasks)
                self.tasks = [task for task in self.tasks if task not in handed]
            return True
