"""How much to claim before a thread is free for it: how many tasks, and how long before they are due."""

import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, NamedTuple

from django_delayed_tasks import clock
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.running.worker import LONGEST_HOLD
from django_delayed_tasks.handlers import async_codes
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, claimable_at, hold_until
from django_delayed_tasks.store.claiming.request import ClaimRequest, Shares

AHEAD = 0.1
"""Seconds of work to hold in the local queue: a more urgent task that becomes due meanwhile waits that long."""
QUIET = 0.5
"""Seconds without an ended run after which the mean duration is forgotten."""
_SHARE = 0.3
"""The weight of the latest runs in the mean duration."""

LONGEST: Final = LONGEST_HOLD
"""Seconds to look ahead at most. A claimed task counts as running: it is too late to cancel or reschedule it."""
FIRST: Final = 0.002
"""Seconds that a reading or a claim is assumed to take before one was measured."""
MARGIN: Final = 0.001
"""Seconds allowed for two threads to wake up."""
REMEMBERED: Final = 100
"""Statements that are remembered; the slowest of them counts, so about one task in a hundred may still be late."""


LOOK: Final = 500
"""How many due tasks of a level are read at least, if only some of them can be run: the others would be in the way."""


class Room(NamedTuple):
    """How many tasks to claim for the threads, for the event loop, and in ``total``, which is no more than ``most``.

    ``codes`` are those of async handlers, whose tasks are for the event loop. Tasks of a function that is imported only
    when they are claimed count as those for threads.
    """

    threads: int
    loop: int
    most: int
    total: int
    codes: frozenset[str]

    @property
    def is_for_all(self) -> bool:
        """Whether there is room for tasks of every kind: what a poll with such room has not claimed is not due."""
        return self.threads > 0 and (self.loop > 0 or not self.codes)

    def at_most(self, most: int) -> "Room":
        """Return the room for no more than ``most`` tasks, whichever they are for."""
        return room_for(min(self.threads, most), min(self.loop, most), most, self.codes)

    def without(self, tasks: Sequence[ClaimedTask]) -> "Room":
        """Return the room that is left after these tasks were claimed."""
        if not tasks:
            return self
        on_loop = min(self.loop, len([task for task in tasks if task.biz_code in self.codes]))
        threads, loop = max(0, self.threads - (len(tasks) - on_loop)), max(0, self.loop - on_loop)
        return room_for(threads, loop, max(0, self.most - len(tasks)), self.codes)

    def of(self, biz_code: str) -> int:
        """Return how many tasks to claim of this code."""
        return self.loop if biz_code in self.codes else self.threads

    def narrow(self, request: ClaimRequest) -> ClaimRequest:
        """Let the request claim no more of each kind than there is room for, if there are handlers of both."""
        if not self.codes:
            return request
        shares = Shares(self.codes, inside=self.loop, outside=self.threads, together=request.limit)
        return replace(request, limit=max(request.limit, LOOK), shares=shares)


def room_for(threads: int, loop: int, most: int = sys.maxsize, codes: frozenset[str] = frozenset()) -> Room:
    """Return the room for this many tasks of each kind, and for ``most`` of both together."""
    return Room(threads, loop, most, min(threads + loop, most), codes)


class ClaimSize:
    """How many tasks to claim, from how long runs take: enough to keep the threads busy, no more than start soon.

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
        codes = async_codes()
        loop = min(self._batch_size, self._held.room_on_loop) if codes else 0
        return room_for(self.wanted(), loop, codes=codes)

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
        self._mean = latest if self._mean is None else self._mean + _SHARE * (latest - self._mean)
        self._target = min(self._held.most, self._threads + int(self._threads * AHEAD / self._mean))


class Lookahead:
    """How long before they are due to claim tasks: as long as a claim takes, so that their runs start on time.

    No run starts early: the thread that will run such a task holds it until it is due by the database's clock. See
    docs/decisions/0010-start-on-time.md.
    """

    def __init__(self, options: ExecutorOptions) -> None:
        self._is_drain = options.drain
        self._readings = deque([FIRST], maxlen=REMEMBERED)
        self._claims = deque([FIRST], maxlen=REMEMBERED)

    def note_reading(self, seconds: float) -> None:
        """Note that the agenda was read in ``seconds``."""
        self._readings.append(seconds)

    def note_claim(self, seconds: float) -> None:
        """Note that tasks were claimed in ``seconds``."""
        self._claims.append(seconds)

    @property
    def length(self) -> timedelta:
        """How long before it is due a task may be claimed: long enough to read the agenda once more and claim.

        It is 0 for a drain, which runs only what is due.
        """
        if self._is_drain:
            return timedelta()
        return timedelta(seconds=min(LONGEST, max(self._readings) + max(self._claims) + MARGIN))

    def mark(self, tasks: list[ClaimedTask]) -> None:
        """Mark tasks that were claimed ahead: none of them starts before it is due."""
        for task in tasks:
            hold_until(task, claimable_at(task))
