"""The claims that this process holds, from the moment they are won until they are settled or released.

The end of a run takes no lock, since it is what threads do most often: with a lock, threads whose runs are short wait
for each other in a queue that never empties (docs/decisions/0028).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import timedelta
from enum import IntEnum, auto
from queue import SimpleQueue
from threading import Event, Lock
from typing import Any, NamedTuple

from django.db import Error

from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.threads.connecting import Connecting
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, lend
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement, released
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


class Stage(IntEnum):
    """The stage of a claim. A claim whose run has ended, but is not settled, has none.

    UNFINISHED: the task waits for a thread or runs. IN_BATCH: it is run in the same call as another task and takes no
    thread of its own. AWAITED: it runs on the event loop. AWAITED_IN_BATCH: so it does, in another task's call.
    """

    UNFINISHED = auto()
    IN_BATCH = auto()
    AWAITED = auto()
    AWAITED_IN_BATCH = auto()


class ClaimingLocks(NamedTuple):
    """One lock for each thread, apart from the poller's, that makes claims."""

    lanes: Lock
    settler: Lock

    def wait(self, seconds: float) -> bool:
        """Wait for the claims that are being made now; return False if one of them takes longer than ``seconds``."""
        for lock in self:
            if not lock.acquire(timeout=seconds):
                return False
            lock.release()
        return True


class Held:
    """The claims of this process, their stages, and the queue of how they end; thread-safe.

    Attributes:
        unfinished: the number of claims that wait in the local queue or run in threads; a batch counts as one.
        awaited: the number of claims that run on the event loop; a batch counts as one.
        claimed: the number of tasks that were claimed to be run here.
        settled: the number of claims that were settled, released or dropped.
        ended_on_loop: the number of runs that ended on the event loop.
        limited: those of the claims that may have permits.
        most: the most unfinished claims to hold; the settler is far behind when twice as many are unsettled.
        ended: the settlements that the settler has yet to write; None tells it to end once all are written.
        has_claimed_all: set by the poller: whether it has claimed all that was due, so that new room need not wake it.
        wake_poller: set when there is room for more claims, when a task was added in this process, and by notices.
        wake_lanes: set when a claim that had permits has ended, and when tasks of limited codes are due.
        wake_lanes_when_thread_frees: set by the lanes: whether they are to be woken when a thread has become free.
        claiming: locks that the lanes and the settler hold from making a claim to adding it here.
        connecting: the threads that have no connection to run tasks with.
    """

    def __init__(self, options: ExecutorOptions) -> None:
        self._alias = options.database
        self._threads = options.threads
        self._async_concurrency = options.async_concurrency
        self._lock = Lock()
        self._tasks: dict[Claim, ClaimedTask] = {}
        self._at: dict[Stage, dict[Claim, bool]] = {stage: {} for stage in Stage}
        self._unfinished, self._awaited = self._at[Stage.UNFINISHED], self._at[Stage.AWAITED]
        self.limited: set[Claim] = set()
        self.has_claimed_all = False
        self._refill_below = options.threads
        self.most = options.threads + 2 * options.batch_size
        self._work_done = (0, 0.0)
        self._durations: deque[float] = deque()
        self.claimed = 0
        self.settled = 0
        self.ended_on_loop = 0
        self.ended: SimpleQueue[Settlement | None] = SimpleQueue()
        self.wake_poller = Event()
        # Where the poller itself claims from lanes: see Poller.poll().
        self.wake_lanes = self.wake_poller if options.ends_by_itself else Event()
        self.wake_lanes_when_thread_frees = False
        self.claiming = ClaimingLocks(Lock(), Lock())
        self.connecting = Connecting(self.wake_poller, self.wake_lanes)

    def add(self, tasks: Iterable[ClaimedTask], is_limited: bool = False) -> None:
        """Add tasks that were just claimed; ``is_limited``: they may have permits that others wait for."""
        new = {task.claim: task for task in tasks}
        with self._lock:
            if not self._tasks.keys().isdisjoint(new):  # a server that lost its last commits gives a version twice
                self._forget(new)
            self._tasks |= new
            self._unfinished.update(dict.fromkeys(new, True))
            if is_limited:
                self.limited.update(new)
            self.claimed += len(new)

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

    def finish(self, claims: Iterable[Claim], seconds: float = 0.0) -> None:
        """Note that the run of these tasks ended after ``seconds``; they may have yet to be settled."""
        has_left_loop = False
        for claim in claims:
            if self._unfinished.pop(claim, False):
                self._durations.append(seconds)
            else:
                has_left_loop |= self._leave(claim) is Stage.AWAITED
        if has_left_loop:
            self.ended_on_loop += 1
        if self.wake_lanes_when_thread_frees:
            self.wake_lanes.set()
        self._refill(has_left_loop and self.room_on_loop > 0)

    def _leave(self, claim: Claim) -> Stage | None:
        """Take a claim out of its stage, and return that; only one of several threads gets it."""
        for stage, claims in self._at.items():
            if claims.pop(claim, False):
                return stage
        return None

    @property
    def work_done(self) -> tuple[int, float]:
        """(the number of runs that ended in threads, the seconds they took)."""
        with self._lock:
            runs, seconds = self._work_done
            for _ in range(len(self._durations)):
                runs, seconds = runs + 1, seconds + self._durations.popleft()
            self._work_done = runs, seconds
            return self._work_done

    def put_end(self, settlement: Settlement) -> None:
        """Queue how a claim ended for the settler, which writes it; the claim is held until then."""
        self.ended.put(settlement)

    def release(self, tasks: Iterable[ClaimedTask], after: timedelta = timedelta(), lane: str | None = None) -> None:
        """Let the settler release tasks that do not start here: claimable ``after`` that, and then in this ``lane``."""
        before, awaited = self.unfinished, self.awaited
        for task in tasks:
            self.free_resource(task)
            self._give_back(task.claim)
            self.ended.put(released(task, after, lane))
        if self.unfinished < before or self.awaited < awaited:
            self._refill(self.awaited < awaited and self.room_on_loop > 0)

    def release_now(self, settlements: list[Settlement]) -> None:
        """Release tasks that will not be started here, before returning.

        Raises:
            DatabaseError: the database does not answer; the tasks are still held.
        """
        settle(self._alias, settlements)
        for settlement in settlements:
            self._give_back(settlement.claim)
        self.remove(settlement.claim for settlement in settlements)

    def drop(self, tasks: Iterable[ClaimedTask]) -> None:
        """Forget tasks that have not been started, because other executors own them now."""
        dropped = list(tasks)
        for task in dropped:
            self.free_resource(task)
            self._give_back(task.claim)
        self.remove(task.claim for task in dropped)

    def remove(self, claims: Iterable[Claim]) -> None:
        """Remove claims that are settled, released or lost."""
        with self._lock:
            was_full, limited = self.is_full, len(self.limited)
            self.settled += self._forget(claims)
            have_left_permits = len(self.limited) < limited
        if have_left_permits:
            self.wake_lanes.set()
        if was_full:
            self._refill(self.has_room)

    def free_resource(self, task: ClaimedTask) -> None:
        """Give back the resource that a task holds, if it holds one."""
        if (resource := lend(task, None)) is not None:
            self.give_back(task, resource)

    def give_back(self, task: ClaimedTask, resource: Any) -> None:
        """Give back a resource that was lent to a task; if the database refuses, it is free when its lease is over."""
        try:
            resource.release()
        except Error as error:  # InterfaceError too, which is no DatabaseError
            logger.warning(
                "the resource of %s could not be given back; it is free when its lease is over: %s", task, error
            )

    def room_for(self, target: int) -> int:
        """Return how many more claims to make, so that ``target`` are unfinished.

        It is 0 until fewer than half of these are left. From now on the poller is woken when that is so.
        """
        self._refill_below = max(self._threads, target // 2)
        # A thread that waits for a connection takes no task.
        return max(0, target - len(self._unfinished) - self.connecting.threads) if self.wants_more else 0

    @property
    def wants_more(self) -> bool:
        """Whether it is time to claim: there are few unfinished claims, and the settler is not far behind."""
        is_short = len(self._unfinished) + self.connecting.threads < self._refill_below
        return is_short and not self.is_full and not self.lacks_connections

    @property
    def lacks_connections(self) -> bool:
        """Whether every thread for runs waits for a connection."""
        return self.connecting.threads >= self._threads

    @property
    def has_room(self) -> bool:
        """Whether a task that is added now may be claimed at once."""
        return self.wants_more or (bool(registry.async_codes) and self.room_on_loop > 0)

    @property
    def room_on_loop(self) -> int:
        """The number of runs for which the loop has room; 0 if the settler is far behind, or queries cannot connect."""
        is_closed = self.is_full or self.connecting.is_loop_waiting
        return 0 if is_closed else max(0, self._async_concurrency - len(self._awaited))

    @property
    def is_full(self) -> bool:
        """Whether nothing is to be claimed because too many claims run or wait, or have yet to be settled."""
        on_loop = len(self._awaited) + len(self._at[Stage.AWAITED_IN_BATCH])  # need no thread, nor the settler yet
        return len(self._tasks) - on_loop >= 2 * self.most

    def _refill(self, has_room: bool) -> None:
        """Wake the poller if there is new room, or the threads are short of work."""
        if not self.has_claimed_all and not self.wake_poller.is_set() and (has_room or self.wants_more):
            self.wake_poller.set()

    def _give_back(self, claim: Claim) -> None:
        """Mark the claim as one to be released; it no longer counts as claimed."""
        with self._lock:
            if claim in self._tasks:
                self._leave(claim)
                self.claimed -= 1

    def _move(self, claims: Iterable[Claim], before: tuple[Stage, ...], after: Stage) -> None:
        with self._lock:
            for claim in claims:
                if any(self._at[stage].pop(claim, False) for stage in before):
                    self._at[after][claim] = True

    def _forget(self, claims: Iterable[Claim]) -> int:
        forgotten = [claim for claim in claims if self._tasks.pop(claim, None)]
        for at_stage in self._at.values():  # most have ended, and are at none
            for claim in at_stage.keys() & forgotten if at_stage else ():
                at_stage.pop(claim, None)
        if self.limited:
            self.limited.difference_update(forgotten)
        return len(forgotten)

    def get(self, claim: Claim) -> ClaimedTask | None:
        """Return the task of a claim, or None if the claim is not held."""
        return self._tasks.get(claim)

    def tasks(self) -> list[ClaimedTask]:
        """Return the tasks of all claims that are held."""
        with self._lock:
            return list(self._tasks.values())

    def __contains__(self, claim: object) -> bool:
        return claim in self._tasks

    def claims(self) -> set[Claim]:
        """Return all claims that are held."""
        with self._lock:
            return set(self._tasks)

    @property
    def unfinished(self) -> int:
        return len(self._unfinished)

    @property
    def awaited(self) -> int:
        return len(self._awaited)

    def __len__(self) -> int:
        return len(self._tasks)
