"""A worker's task: it is held until it is due, and run; how it ended is handed on.

A :class:`Performer` does so in a thread, and on the event loop, where the runs of async handlers are.
"""

import asyncio
import time
from typing import Final

from asgiref.sync import sync_to_async

from django_delayed_tasks import clock
from django_delayed_tasks.executor import project
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.lines import Batch
from django_delayed_tasks.executor.running.awaited_run import arun
from django_delayed_tasks.executor.running.current_run import CurrentRun, Lent
from django_delayed_tasks.executor.running.deciding import raised, rescue_settlement
from django_delayed_tasks.executor.running.run import RunEnd, run
from django_delayed_tasks.executor.running.run_queue import RunQueue
from django_delayed_tasks.executor.threads.crew import CrewThread
from django_delayed_tasks.executor.threads.loop import Backoff
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, is_lost, lend, not_before
from django_delayed_tasks.store.sql import kept_connections

MAX_HOLD: Final = 0.02
"""Seconds before it is due that a task may be claimed, and then held by the thread that will run it."""
OVERSLEPT: Final = 0.0001
"""Seconds by which a sleep ends too late, at least: in the last of them a thread looks at the clock instead."""


class Performer:
    """Performs runs: :meth:`work` is what worker threads do, :meth:`aperform` what is done on the event loop."""

    def __init__(
        self,
        options: ExecutorOptions,
        lease: Lease,
        held: Held,
        queue: RunQueue,
        database_clock: clock.DatabaseClock,
    ) -> None:
        self._alias = options.database
        self._max_rescues = options.max_rescues
        self._lease = lease
        self._held = held
        self._queue = queue
        self._clock = database_clock

    def work(self, thread: CrewThread[CurrentRun], running: CurrentRun) -> None:
        """Like :meth:`perform`, as one call of the project's code, if this thread has a connection.

        A handler that has begun may have had effects outside of the database: so it is not called without.
        """
        if thread.own.connection.connection is None and (error := kept_connections.failure_to_open(thread.own.alias)):
            self._await_connection(thread, error, self.released(running))
        else:
            project.within(running, self.perform, running)

    def perform(self, running: CurrentRun) -> None:
        """Run a task or a batch, if it may still start here, and note how it ended."""
        tasks = running.tasks
        is_due = hold_until_due(tasks, self._clock)
        may_begin = running.begin()  # else it was given up while its thread waited for a connection
        handler = find(tasks[0].biz_code)
        if not may_begin or handler is None or not is_due or not self._are_held(tasks):
            self.give_back(self.released(running))
            return
        try:
            end = run(tasks, handler, self._clock, self._max_rescues)
        finally:
            for task in tasks:
                if task.resource is not None:
                    self._free_resource(task)
        self._note_end(running, end)

    async def aperform(self, running: CurrentRun) -> None:
        """Like :meth:`perform`, for an async handler."""
        tasks = running.tasks
        is_due = await ahold_until_due(tasks, self._clock)
        may_begin = running.begin()
        handler = find(tasks[0].biz_code)
        if not may_begin or handler is None or not is_due or not self._are_held(tasks):
            await self.arelease(running)
            return
        running.is_waiting = False
        try:
            end = await arun(tasks, handler, self._clock, self._max_rescues, running)
        finally:
            await self._afree_resources(tasks)
        self._note_end(running, end)

    def _await_connection(self, thread: CrewThread[CurrentRun], error: Exception, lent: Lent) -> None:
        """Let a thread that could not connect wait until it can, or is to end, unless it was given up.

        Then give back what was lent to the tasks that it has released.
        """
        if thread.rest():
            backoff = Backoff()
            self._held.capacity.lose_connection(thread.name, error)
            while not self._queue.closed.wait(backoff.failed()):
                if kept_connections.failure_to_open(thread.own.alias) is None:
                    self._held.capacity.regain_connection(thread.name)
                    break
        self.give_back(lent)

    def give_back(self, lent: Lent) -> None:
        """Give back resources that were lent to tasks."""
        for task, resource in lent:
            self._held.give_back(task, resource)

    def _free_resource(self, task: ClaimedTask) -> None:
        if own := kept_connections.own():
            own.tidy(task)  # through what the run has left, it might not be given back
        self._held.free_resource(task)

    async def arelease(self, running: CurrentRun) -> None:
        """Release the tasks of a run that will not start here; their resources are given back off the event loop."""
        if lent := self.released(running):
            await sync_to_async(self.give_back)(lent)

    def released(self, running: CurrentRun) -> Lent:
        """Release the tasks of a run, unless it was given up; return the resources that are still to be given back.

        The tasks come first: to give back resources may take so long that the run would be given up. It may even take
        longer than their leases, which end then.
        """
        lent = [(task, resource) for task in running.tasks if (resource := lend(task, None)) is not None]
        for _, resource in lent:
            resource.renew_no_more()
        if running.handed_over_at is None and running.hand_over([]):
            self._held.release(running.tasks)
        return lent

    async def _afree_resources(self, tasks: Batch) -> None:
        for task in tasks:
            if task.resource is not None:
                await sync_to_async(self._free_resource)(task)

    def claims_are_gone(self, running: CurrentRun) -> bool:
        """Return whether all claims of the run are known to be gone; the fence refuses the ends of some."""
        return all(task.executor != self._lease.executor or is_lost(task) for task in running.tasks)

    def fail_run(self, running: CurrentRun, error: BaseException) -> None:
        """Settle the tasks of a run that ended with an error of neither the handler nor its outcome, if still held."""
        if running.hand_over([]):
            left = [task for task in running.tasks if task.claim in self._held]
            now = self._clock.now()
            settlements = [rescue_settlement(task, raised(error), now, self._max_rescues) for task in left]
            self._held.end([task.claim for task in left], settlements)

    def _are_held(self, tasks: Batch) -> bool:
        """Return False if the lease of a claim, or of its resource, is lost: another executor may run the task."""
        if clock.monotonic() >= self._lease.trusted_until:
            return False
        for task in tasks:
            resource = task.resource
            if task.executor != self._lease.executor or (resource is not None and not resource.is_held):
                return False
        return True

    def _note_end(self, running: CurrentRun, end: RunEnd) -> None:
        left, alone = end
        if not running.hand_over(alone):
            return
        ended = [task.claim for task in running.tasks]
        self._held.end(ended, left, clock.monotonic() - running.began)
        if len(left) < len(ended):
            self._held.remove(set(ended) - {settlement.claim for settlement in left})
        if alone:
            self._queue.put_alone(alone)


def hold_until_due(tasks: Batch, database_clock: clock.DatabaseClock) -> bool:
    """Wait until tasks that were claimed ahead are due; return False if the database's clock was set back."""
    if (due := not_before(tasks)) is None:
        return True
    deadline = clock.monotonic() + 2 * MAX_HOLD
    while (seconds := (due - database_clock.now()).total_seconds()) > 0:
        if clock.monotonic() > deadline:
            return False
        if seconds > OVERSLEPT:
            time.sleep(min(seconds - OVERSLEPT, MAX_HOLD))
    return True


async def ahold_until_due(tasks: Batch, database_clock: clock.DatabaseClock) -> bool:
    """Like :func:`hold_until_due`, on the event loop."""
    if (due := not_before(tasks)) is None:
        return True
    deadline = clock.monotonic() + 2 * MAX_HOLD
    while (seconds := (due - database_clock.now()).total_seconds()) > 0:
        if clock.monotonic() > deadline:
            return False
        await asyncio.sleep(min(seconds, MAX_HOLD))
    return True
