"""The number of tasks of limited codes to claim now: as many as find a thread by the time they have been claimed."""

from collections.abc import Callable
from threading import Lock
from typing import Final

from django_delayed_tasks import clock
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.running.run_queue import RunQueue
from django_delayed_tasks.handlers import TaskHandler

WINDOW: Final = 0.1
"""Seconds over which the rate of ended runs is averaged."""
CLAIMS: Final = 2
"""The number of claims for whose duration to hold tasks: with one, threads would have to wait for each next claim."""


class ExpectedEnds:
    """The number of runs that are expected to end during the next claims; thread-safe.

    It follows the rate at which runs have ended, of whatever code: one that is long does not count. ``ended`` returns
    how many runs have ended so far, in threads or on the event loop.
    """

    def __init__(self, ended: Callable[[], int]) -> None:
        self._ended = ended
        self._lock = Lock()
        self._seen = 0
        self._seen_at = clock.monotonic()
        self._rate = 0.0
        self._claim = 0.0

    def note_claim(self, seconds: float) -> None:
        """Note that tasks were claimed in ``seconds``."""
        self._claim = seconds

    @property
    def count(self) -> int:
        """The number of runs."""
        with self._lock:
            seen, now = self._ended(), clock.monotonic()
            if elapsed := now - self._seen_at:
                latest = (seen - self._seen) / elapsed
                self._rate += min(1.0, elapsed / WINDOW) * (latest - self._rate)
                self._seen, self._seen_at = seen, now
            return int(CLAIMS * self._rate * self._claim)


class LaneRoom:
    """The room for tasks of limited codes in this executor; thread-safe."""

    def __init__(self, options: ExecutorOptions, lease: Lease, held: Held, queue: RunQueue) -> None:
        self._options = options
        self._lease = lease
        self._held = held
        self._queue = queue
        self._in_threads = ExpectedEnds(lambda: held.work_done[0])
        self._on_loop = ExpectedEnds(lambda: held.ended_on_loop)

    def note_claim(self, seconds: float) -> None:
        """Note that tasks were claimed in ``seconds``."""
        for ends in (self._in_threads, self._on_loop):
            ends.note_claim(seconds)

    def expected_ends(self, handler: TaskHandler) -> int:
        """Return how many runs are expected to end, during the next claims, where those of this handler run."""
        return (self._on_loop if handler.is_async else self._in_threads).count

    def of(self, handler: TaskHandler) -> int:
        """Return how many tasks of this handler to claim at most."""
        if self._held.is_full or clock.monotonic() >= self._lease.claims_until:
            return 0
        room = self._held.room_on_loop if handler.is_async else self._threads_for(handler)
        if self._options.max_tasks is not None:
            room = min(room, self._options.max_tasks - self._held.claimed)
        return min(room, self._options.batch_size)

    def _threads_for(self, handler: TaskHandler) -> int:
        """Return how many tasks would find a thread, now or while they are being claimed.

        A task that waits for a thread has permits that another executor could use. A rate token counts from the claim
        on, so of tasks with a rate no more than one waits. Where the next thread that is free would run a task without
        permits, one with permits may wait for it just as well: otherwise it would never find an idle one.
        """
        threads = self._options.threads - self._held.connecting.threads
        idle = max(0, threads - (self._held.unfinished - self._queue.waiting))
        soon = max(self._in_threads.count, min(self._queue.unpermitted, 1))
        wanted = max(idle, min(soon, 1)) if handler.rate else idle + soon
        return wanted - self._queue.permitted
