"""The room for more claims: threads and places on the event loop, less what has taken them or is about to.

The end of a run takes no lock, since it is what threads do most often: with a lock, threads whose runs are short wait
for each other in a queue that never empties (docs/decisions/0028).
"""

import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum, auto
from threading import Lock
from typing import Final, NamedTuple

from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.claimer import Claimer, Kind
from django_delayed_tasks.executor.room.lines import Lines
from django_delayed_tasks.executor.room.pace import Pace
from django_delayed_tasks.handlers import TaskHandler, registry
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.store.sql.lanes import LOOP
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

AHEAD: Final = 0.1
"""Seconds of work to hold in the local queue: a more urgent task that becomes due meanwhile waits that long."""
CLAIMS: Final = 2
"""The number of claims for whose duration to hold tasks with permits: with one, threads would have to wait for each
next claim."""
EVENT_LOOP: Final = "the event loop"
"""Stands for the thread that makes the queries of coroutines."""


class Stage(IntEnum):
    """The stage of a claim. A claim whose run has ended, but is not settled, has none.

    UNFINISHED: the task waits for a thread or runs. IN_BATCH: it is run in the same call as another task and takes no
    thread of its own. AWAITED: it runs on the event loop. AWAITED_IN_BATCH: so it does, in another task's call.
    """

    UNFINISHED = auto()
    IN_BATCH = auto()
    AWAITED = auto()
    AWAITED_IN_BATCH = auto()


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


class Capacity:
    """The room of one executor, and who is woken when there is more; thread-safe.

    Attributes:
        lines: the tasks that wait for a thread.
        most: the most unfinished claims to hold; the settler is far behind when twice as many are unsettled.
        claimed: the number of tasks that were claimed to be run here.
        paces: the paces of the runs, by the kind of room that they take.
        unconnected: the number of threads for runs that wait for a connection.
        is_loop_unconnected: whether coroutines would have no connection.
        plain, limited: those that claim tasks without limits, and those with limits.
    """

    def __init__(self, options: ExecutorOptions) -> None:
        self._threads = options.threads
        self._places = options.async_concurrency
        self._batch_size = options.batch_size
        self._max_tasks = options.max_tasks
        self.most = options.threads + 2 * options.batch_size
        self.plain = Claimer()
        # Where the poller itself claims tasks with limits, it is what is woken for them: see Poller.poll().
        self.limited = Claimer(self.plain.wake if options.ends_by_itself else None)
        self.plain.join(self.limited)
        self.lines = Lines(self.limited)
        self._lock = Lock()
        self._at: dict[Stage, dict[Claim, bool]] = {stage: {} for stage in Stage}
        self._unfinished, self._awaited = self._at[Stage.UNFINISHED], self._at[Stage.AWAITED]
        self._held = 0
        self.claimed = 0
        self.paces = {kind: Pace() for kind in Kind}
        self._in_threads, self._on_loop = self.paces[Kind.THREAD], self.paces[Kind.LOOP]
        self._claim_takes = 0.0
        self._refill_below = options.threads
        self._unconnected: set[str] = set()
        self.unconnected = 0
        self.is_loop_unconnected = False

    def enter(self, claims: Iterable[Claim]) -> None:
        """Note new claims: each takes a thread, until that is known better."""
        new = dict.fromkeys(claims, True)
        with self._lock:
            self._unfinished.update(new)
            self._held += len(new)
            self.claimed += len(new)

    def leave(self, claims: Sequence[Claim]) -> None:
        """Note that these claims are held no longer."""
        with self._lock:
            was_full = self.is_full
            for at_stage in self._at.values():  # most have ended, and are at none
                for claim in at_stage.keys() & claims if at_stage else ():
                    at_stage.pop(claim, None)
            self._held -= len(claims)
        if was_full:
            self._wake(self.has_room)

    def join_batch(self, claims: Iterable[Claim]) -> None:
        """Note that these tasks are run in the same call as another one and take no thread of their own."""
        self._move(claims, (Stage.UNFINISHED,), Stage.IN_BATCH)

    def leave_batch(self, claims: Iterable[Claim]) -> None:
        """Note that these tasks are run one by one after all."""
        self._move(claims, (Stage.IN_BATCH, Stage.AWAITED, Stage.AWAITED_IN_BATCH), Stage.UNFINISHED)

    def await_batch(self, claims: Sequence[Claim]) -> None:
        """Note that these tasks are run on the event loop, in one call."""
        self._move(claims[:1], (Stage.UNFINISHED,), Stage.AWAITED)
        self._move(claims[1:], (Stage.IN_BATCH,), Stage.AWAITED_IN_BATCH)

    def _move(self, claims: Iterable[Claim], before: tuple[Stage, ...], after: Stage) -> None:
        with self._lock:
            for claim in claims:
                if any(self._at[stage].pop(claim, False) for stage in before):
                    self._at[after][claim] = True

    def finish(self, claims: Iterable[Claim], seconds: float) -> None:
        """Note that the run of these tasks ended after ``seconds``; they may have yet to be settled."""
        has_left_loop = False
        for claim in claims:
            if self._unfinished.pop(claim, False):
                self._in_threads.note_end(seconds)
            else:
                has_left_loop |= self._take_out(claim) is Stage.AWAITED
        if has_left_loop:
            self._on_loop.note_end(seconds)
        if self.limited.wants_room:
            self.limited.wake.set()
        if self.plain.wants_room:
            self._wake(has_left_loop and self.room_on_loop > 0)

    def withdraw(self, claims: Iterable[Claim]) -> None:
        """Note that these tasks will not start here: they no longer count as claimed."""
        with self._lock:
            stages = [self._take_out(claim) for claim in claims]
            self.claimed -= len(stages)
        if Stage.UNFINISHED in stages or Stage.AWAITED in stages:
            self._wake(Stage.AWAITED in stages and self.room_on_loop > 0)

    def _take_out(self, claim: Claim) -> Stage | None:
        """Take a claim out of its stage, and return that; only one of several threads gets it."""
        for stage, claims in self._at.items():
            if claims.pop(claim, False):
                return stage
        return None

    def lose_connection(self, name: str, error: Exception) -> None:
        """Note that a thread waits for a connection because of ``error``, and takes no tasks; log the first one."""
        with self._lock:
            is_first = not self._unconnected
            self._unconnected.add(name)
            self._count_unconnected()
        if is_first:
            text = "%s has no connection: its task is released, and it takes no other one until it has one: %s"
            logger.warning(text, name, error)

    def regain_connection(self, name: str) -> None:
        """Note that a thread waits for a connection no longer, and may run tasks again; log the last one."""
        with self._lock:
            is_last = self._unconnected == {name}
            self._unconnected.discard(name)
            self._count_unconnected()
        if is_last:
            logger.warning("all threads that waited for a connection continue")
        for claimer in (self.plain, self.limited):
            claimer.wake.set()

    def _count_unconnected(self) -> None:
        self.is_loop_unconnected = EVENT_LOOP in self._unconnected
        self.unconnected = len(self._unconnected) - self.is_loop_unconnected

    @property
    def is_unconnected(self) -> bool:
        """Whether every thread for runs waits for a connection."""
        return self.unconnected >= self._threads

    @property
    def allowed(self) -> int:
        """The number of tasks that may still be claimed, if this executor ends after ``max_tasks`` of them."""
        return sys.maxsize if self._max_tasks is None else max(0, self._max_tasks - self.claimed)

    def room(self) -> Room:
        """Return how many tasks without limits to claim now: enough for busy threads, no more than start soon.

        For threads it is 0 until fewer than half of those that start soon are left, and nothing is claimed ahead for
        slow handlers: other executors could run the tasks that would wait here. The event loop needs nothing ahead, as
        one claim serves hundreds of its runs. Both are 0 if the settler is far behind.
        """
        mean = self._in_threads.mean
        ahead = 0 if mean is None else int(self._threads * AHEAD / mean)
        target = self._threads if mean is None else min(self.most, self._threads + ahead)
        self._refill_below = max(self._threads, target // 2)
        # A thread that waits for a connection takes no task.
        threads = max(0, target - len(self._unfinished) - self.unconnected) if self.wants_more else 0
        threads = min(self._batch_size, threads)
        # Without an async handler, what waits for a loop is misfiled, and looked at when there is room for more tasks.
        loop = min(self._batch_size, self.room_on_loop) if registry.async_codes else threads
        return Room(threads, loop, self.allowed)

    def room_for(self, handler: TaskHandler) -> int:
        """Return how many tasks of a limited handler to claim now: as many as find room while they are claimed."""
        if self.is_full:
            return 0
        room = self.room_on_loop if handler.is_async else self._threads_for(handler)
        return min(room, self.allowed, self._batch_size)

    def _threads_for(self, handler: TaskHandler) -> int:
        """Return how many tasks would find a thread, now or while they are being claimed.

        A task that waits for a thread has permits that another executor could use. A rate token counts from the claim
        on, so of tasks with a rate no more than one waits. Where the next thread that is free would run a task without
        permits, one of each code may wait for it just as well: otherwise it would never find an idle one, and its code
        would have no turn.
        """
        idle = max(0, self._threads - self.unconnected - (len(self._unfinished) - self.lines.waiting))
        soon = self.expected_ends(handler)
        wanted = max(idle, min(soon, 1)) if handler.rate else idle + soon
        is_passed_by = self.lines.unpermitted and not self.lines.has_waiting(handler.biz_code)
        return max(wanted - self.lines.permitted, 1 if is_passed_by else 0)

    def note_claim(self, seconds: float) -> None:
        """Note that tasks with permits were claimed in ``seconds``."""
        self._claim_takes = seconds

    def expected_ends(self, handler: TaskHandler) -> int:
        """Return how many runs are expected to end, during the next claims, where those of this handler run."""
        pace = self._on_loop if handler.is_async else self._in_threads
        return int(CLAIMS * pace.rate * self._claim_takes)

    @property
    def wants_more(self) -> bool:
        """Whether it is time to claim: there are few unfinished claims, and the settler is not far behind."""
        is_short = len(self._unfinished) + self.unconnected < self._refill_below
        return is_short and not self.is_full and not self.is_unconnected

    @property
    def has_room(self) -> bool:
        """Whether a task that is added now may be claimed at once."""
        return self.wants_more or (bool(registry.async_codes) and self.room_on_loop > 0)

    @property
    def room_on_loop(self) -> int:
        """The number of runs for which the loop has room; 0 if the settler is far behind, or queries cannot connect."""
        return 0 if self.is_full or self.is_loop_unconnected else max(0, self._places - len(self._awaited))

    @property
    def is_full(self) -> bool:
        """Whether nothing is to be claimed because too many claims run or wait, or have yet to be settled."""
        on_loop = len(self._awaited) + len(self._at[Stage.AWAITED_IN_BATCH])  # need no thread, nor the settler yet
        return self._held - on_loop >= 2 * self.most

    @property
    def unfinished(self) -> int:
        """The number of claims that wait in the local queue or run in threads; a batch counts as one."""
        return len(self._unfinished)

    @property
    def has_idle_threads(self) -> bool:
        """Whether each claim that waits finds a thread at once."""
        return len(self._unfinished) <= self._threads - self.unconnected

    @property
    def awaited(self) -> int:
        """The number of claims that run on the event loop; a batch counts as one."""
        return len(self._awaited)

    def _wake(self, has_room: bool) -> None:
        """Wake the poller if there is new room, or the threads are short of work."""
        plain = self.plain
        if plain.wants_room and not plain.wake.is_set() and (has_room or self.wants_more):
            plain.wake.set()


def kind_of(handler: TaskHandler | None) -> Kind:
    """Return the kind of room that the runs of a handler take."""
    return Kind.LOOP if handler and handler.is_async else Kind.THREAD


def kind_in(lane: str) -> Kind:
    """Return the kind of room that tasks of a lane without limits take."""
    return Kind.LOOP if lane == LOOP else Kind.THREAD
