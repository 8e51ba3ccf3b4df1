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
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.store.claiming.agenda import Level
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
PASSED_BY: Final = 0.1
"""Seconds for which tasks for the event loop are passed by in a level whose first tasks had none of them."""


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
        on_loop = min(self.loop, len([task for task in tasks if task.biz_code in self.codes]))
        threads, loop = max(0, self.threads - (len(tasks) - on_loop)), max(0, self.loop - on_loop)
        return room_for(threads, loop, max(0, self.most - len(tasks)), self.codes)

    def of(self, biz_code: str) -> int:
        """Return how many tasks to claim of this code."""
        return self.loop if biz_code in self.codes else self.threads


def room_for(threads: int, loop: int, most: int = sys.maxsize, codes: frozenset[str] = frozenset()) -> Room:
    """Return the room for this many tasks of each kind, and for ``most`` of both together."""
    return Room(threads, loop, most, min(threads + loop, most), codes)


class Kinds:
    """Lets a claim take no more of each kind of tasks than there is room for; asked if there are async handlers.

    To do so, the first tasks of a level are read before some of them are claimed, which costs several times as much as
    a plain claim. So where that has found a backlog of tasks for threads alone, tasks for the event loop are passed by
    for a moment, and as soon as the others run out they are looked for again.
    """

    def __init__(self) -> None:
        self._until: dict[tuple[str, int], float] = {}

    def most(self, level: Level, limit: int, room: Room, before: Room) -> int:
        """Return how many tasks to claim from a level instead of ``limit``; 0 if there are none to be expected.

        ``before`` is the room before the first claim of this poll. A poll for the event loop alone passes nothing by.
        """
        if not before.threads or not self._is_plain(level.queue, level.priority):
            return limit
        return min(limit, room.threads)

    def narrow(self, request: ClaimRequest, room: Room) -> ClaimRequest:
        """Return the request for tasks that there is room for."""
        if room.threads and self._is_plain(request.queue, request.priority):
            return replace(request, excluded=request.excluded | room.codes)
        shares = Shares(room.codes, inside=room.loop, outside=room.threads, together=request.limit)
        # As many for each executor as it has room for: only its own share of them is to be claimed.
        return replace(request, limit=max(request.limit * request.executors, LOOK), shares=shares)

    def has_left_some(self, request: ClaimRequest, room: Room, tasks: Sequence[ClaimedTask]) -> bool:
        """Note what a request has claimed; return whether it may have passed by tasks that there is room for."""
        level, shares = (request.queue, request.priority), request.shares
        if shares is None:
            is_short = len(tasks) < request.limit and self._until.pop(level, None) is not None
            return is_short and bool(room.loop)
        has_filled_threads = 0 < shares.outside == len(tasks)
        if shares.inside and has_filled_threads and shares.codes.isdisjoint(task.biz_code for task in tasks):
            self._until[level] = clock.monotonic() + PASSED_BY
        return False

    def _is_plain(self, queue: str, priority: int) -> bool:
        return bool(self._until) and clock.monotonic() < self._until.get((queue, priority), 0.0)


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
        codes = registry.async_codes
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
