"""What a worker thread does with a queued task: hold it until it is due, run it, pass on how the run ended."""

import time
from typing import Final

from django_delayed_tasks import clock
from django_delayed_tasks.executor.inflight import InFlight, give_back_resource
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.running.batches import Batch, BrokenBatches, batches_of
from django_delayed_tasks.executor.running.runner import RunEnd, run
from django_delayed_tasks.executor.running.workers import Running, WorkerPool
from django_delayed_tasks.executor.settling.settler import Settler
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, not_before
from django_delayed_tasks.store.settling.settlement import Settlement, released

LONGEST_HOLD: Final = 0.02
"""Seconds before it is due that a task may be claimed, and then held by the thread that will run it."""


class Performer:
    """Runs claimed tasks in the threads of its :attr:`pool`, and passes on how their runs ended."""

    def __init__(
        self,
        options: ExecutorOptions,
        inflight: InFlight,
        settler: Settler,
        lease: Lease,
        database_clock: clock.DatabaseClock,
    ) -> None:
        self._inflight = inflight
        self._settler = settler
        self._lease = lease
        self._clock = database_clock
        self._broken = BrokenBatches()
        self._is_stopping = False
        self.pool = WorkerPool(options.database, options.threads, self.perform)

    def queue(self, tasks: list[ClaimedTask]) -> None:
        """Queue tasks that may run; those of a handler with ``handle_batch`` are run together."""
        batches = batches_of(tasks, self._broken)
        self._inflight.join_batch(task.claim for batch in batches for task in batch[1:])
        self.pool.put(batches)

    def stop(self) -> None:
        """Release the queued tasks, and from now on those of a broken batch, too; current runs continue."""
        self._is_stopping = True
        self._release(self.pool.take_back())

    def perform(self, running: Running) -> None:
        """Run a task or a batch in a worker's thread and pass on how it ended."""
        tasks = running.tasks
        is_due = all(hold_until_due(task, self._clock) for task in tasks)
        running.began = clock.monotonic()
        handler = find(tasks[0].biz_code)
        if handler is None or not is_due or not self._lease.is_trusted or not all(map(self._is_held, tasks)):
            self._release(tasks)
            return
        try:
            end = run(tasks, handler, self._clock)
        finally:
            for task in tasks:
                give_back_resource(task)
        self._note_end(running, end)

    def _is_held(self, task: ClaimedTask) -> bool:
        """Return False if the lease of the claim, or of its resource, is lost: another executor may run the task."""
        return task.executor == self._lease.executor and (task.resource is None or task.resource.is_held)

    def _note_end(self, running: Running, end: RunEnd) -> None:
        if not self.pool.hand_over(running, end.alone):
            return
        self._settle(running, end.left)
        if end.alone:
            self._run_alone(end.alone)

    def _run_alone(self, tasks: Batch) -> None:
        self._broken.note(tasks)
        self._inflight.leave_batch(task.claim for task in tasks)
        if self._is_stopping:
            self._release(tasks)
        else:
            self.pool.put([task] for task in tasks)

    def _settle(self, running: Running, settlements: list[Settlement]) -> None:
        """Settle the tasks of a run that has ended; those without a settlement here have been settled in the run."""
        ended = [task.claim for task in running.tasks]
        self._inflight.finish(ended, clock.monotonic() - running.began)
        for settlement in settlements:
            self._settler.put(settlement)
        if len(settlements) < len(ended):
            self._inflight.remove(set(ended) - {settlement.claim for settlement in settlements})

    def _release(self, tasks: list[ClaimedTask]) -> None:
        """Release claims that will not be started in this process."""
        for task in tasks:
            give_back_resource(task)
            self._inflight.give_back(task.claim)
            self._settler.put(released(task))


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
