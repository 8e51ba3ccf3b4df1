"""What a worker thread does with a queued task: hold it until it is due, run it, pass on how the run ended."""

import time
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from django_delayed_tasks import clock
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.running.run_queue import Batch, RunQueue
from django_delayed_tasks.executor.running.runner import RunEnd, run
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, not_before

LONGEST_HOLD: Final = 0.02
"""Seconds before it is due that a task may be claimed, and then held by the thread that will run it."""


@dataclass(slots=True, eq=False)
class Running:
    """A current run of one task, or of a batch, in a worker; ``began`` is a monotonic second."""

    tasks: Batch
    began: float
    is_abandoned: bool = False
    _lock: Lock = field(default_factory=Lock, repr=False)

    def abandon(self) -> None:
        """Take the run from its worker; what the worker hands over from now on does not count."""
        with self._lock:
            self.is_abandoned = True

    def __str__(self) -> str:
        tasks = self.tasks
        more = f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
        name = f"{tasks[0]}{more}" if tasks else "a run that has just ended"
        return f"{name} (for {clock.monotonic() - self.began:.0f} s)"

    def hand_over(self, tasks: Batch) -> bool:
        """Take tasks out of the run, to be run by others; return False if it was abandoned together with them."""
        with self._lock:
            if not self.is_abandoned:
                handed = set(tasks)
                self.tasks = [task for task in self.tasks if task not in handed]
            return not self.is_abandoned


class Performer:
    """Performs runs; :meth:`perform` is called in worker threads."""

    def __init__(self, lease: Lease, held: Held, queue: RunQueue, database_clock: clock.DatabaseClock) -> None:
        self._lease = lease
        self._held = held
        self._queue = queue
        self._clock = database_clock

    def perform(self, running: Running) -> None:
        """Run a task or a batch, if it may still start here, and note how it ended."""
        tasks = running.tasks
        is_due = all(hold_until_due(task, self._clock) for task in tasks)
        running.began = clock.monotonic()
        handler = find(tasks[0].biz_code)
        if handler is None or not is_due or not self._lease.is_trusted or not all(map(self._is_held, tasks)):
            self._held.release(tasks)
            return
        try:
            end = run(tasks, handler, self._clock)
        finally:
            for task in tasks:
                self._held.free_resource(task)
        self._note_end(running, end)

    def _is_held(self, task: ClaimedTask) -> bool:
        """Return False if the lease of the claim, or of its resource, is lost: another executor may run the task."""
        return task.executor == self._lease.executor and (task.resource is None or task.resource.is_held)

    def _note_end(self, running: Running, end: RunEnd) -> None:
        if not running.hand_over(end.alone):
            return
        ended = [task.claim for task in running.tasks]
        self._held.finish(ended, clock.monotonic() - running.began)
        for settlement in end.left:
            self._held.settle(settlement)
        if len(end.left) < len(ended):
            self._held.remove(set(ended) - {settlement.claim for settlement in end.left})
        if end.alone:
            self._queue.put_alone(end.alone)


def hold_until_due(task: ClaimedTask, database_clock: clock.DatabaseClock) -> bool:
    """Wait until a task that was claimed ahead is due; return False if the database's clock was set back."""
    moment = not_before(task)
    if moment is None:
        return True
    deadline = clock.monotonic() + 2 * LONGEST_HOLD
    while (seconds := (moment - database_clock.now()).total_seconds()) > 0:
        if clock.monotonic() > deadline:
            return False
        time.sleep(min(seconds, LONGEST_HOLD))
    return True
