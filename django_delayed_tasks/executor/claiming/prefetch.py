"""The amount to claim before a thread is free for it: the number of tasks, and the time before they are due."""

import sys
from collections import deque
from datetime import timedelta
from typing import Final, NamedTuple

from django_delayed_tasks import clock
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.running.worker import MAX_HOLD
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, claimable_at, hold_until
from django_delayed_tasks.store.sql.lanes import LOOP

AHEAD = 0.1
"""Seconds of work to hold in the local queue: a more urgent task that becomes due meanwhile waits that long."""
QUIET = 0.5
"""Seconds without an ended run after which the mean duration is forgotten."""

MARGIN: Final = 0.001
"""Seconds allowed for two threads to wake up."""
REMEMBERED: Final = 100
"""Statements that are remembered; the slowest of them counts, so about one task in a hundred may still be late."""


class Room(NamedTuple):
    """The number of further tasks to claim: for ``threads``, for the event ``loop``, and ``most`` of both together."""

    threads: int
    loop: int
    most: int = sys.maxsize

    @property
    def total(self) -> int:
        """The number of tasks to claim of both kinds together."""
        return min(self.threads + self.loop, self.most)

    def of(self, lane: str) -> int:
        """Return how many tasks to claim from this lane."""
        return min(self.loop if lane == LOOP else self.threads, self.most)

    def without(self, lane: str, count: int) -> "Room":
        """Return the room that is left after ``count`` tasks were claimed from this lane."""
        in_threads, on_loop = (0, count) if lane == LOOP else (count, 0)
        return Room(max(0, self.threads - in_threads), max(0, self.loop - on_loop), max(0, self.most - count))


class ClaimSize:
    """The number of tasks to claim, from the duration of runs: enough for busy threads, no more than start soon.

    Nothing is prefetched for slow handlers: other executors could run the tasks that would wait here.
    """

    def __init__(self, options: ExecutorOptions, held: Held) -> None:
        self._threads = options.threads
        self._batch_size = options.batch_size
        self._held = held
        self._seen = (0, 0.0)
        self._seen_at = clock.monotonic()
        self._mean: float | None = None
        self._target = options.threads

    def room(self) -> Room:
        """Return how many tasks to claim now.

        For threads 0 until fewer than half of the target are unfinished. The event loop needs no prefetch: one claim
        serves hundreds of its runs. Both are 0 if the settler is far behind.
        """
        threads = self.wanted()
        # Without an async handler, what waits for a loop is misfiled, and looked at when there is room for more tasks.
        return Room(threads, min(self._batch_size, self._held.room_on_loop) if registry.async_codes else threads)

    def wanted(self) -> int:
        """Return how many tasks to claim for the threads now."""
        done = self._held.work_done
        if done[0] > self._seen[0]:
            self._follow(done)
        elif self._seen_at + QUIET < clock.monotonic():
            self._mean, self._target = None, self._threads
        return min(self._batch_size, self._held.room_for(self._target))

    def _follow(self, done: tuple[int, float]) -> None:
        """Change the target to suit the mean duration of the latest runs."""
        runs, seconds = done[0] - self._seen[0], done[1] - self._seen[1]
        self._seen, self._seen_at = done, clock.monotonic()
        latest = max(seconds / runs, 1e-6)
        self._mean = latest if self._mean is None else self._mean + 0.3 * (latest - self._mean)
        self._target = min(self._held.most, self._threads + int(self._threads * AHEAD / self._mean))


class Lookahead:
    """The time before they are due at which to claim tasks: as long as a claim takes, so that their runs start on time.

    No run starts early: the thread that will run such a task holds it until it is due by the database's clock. See
    docs/decisions/0010-start-on-time.md.
    """

    def __init__(self, options: ExecutorOptions) -> None:
        self._is_drain = options.drain
        self._readings: deque[float] = deque(maxlen=REMEMBERED)
        self._claims: deque[float] = deque(maxlen=REMEMBERED)

    def note_reading(self, seconds: float) -> None:
        """Note that the agenda was read in ``seconds``."""
        self._readings.append(seconds)

    def note_claim(self, seconds: float) -> None:
        """Note that tasks were claimed in ``seconds``."""
        self._claims.append(seconds)

    @property
    def length(self) -> timedelta:
        """The time before it is due at which a task may be claimed: long enough to read the agenda once more and claim.

        It is 0 for a drain, which runs only what is due. A claimed task counts as running: it is too late to cancel or
        reschedule it.
        """
        if self._is_drain:
            return timedelta()
        measured = max(self._readings, default=0.0) + max(self._claims, default=0.0)
        return timedelta(seconds=min(MAX_HOLD, measured + MARGIN))

    def mark(self, tasks: list[ClaimedTask]) -> None:
        """Mark tasks that were claimed ahead: none of them starts before it is due."""
        for task in tasks:
            hold_until(task, claimable_at(task))
