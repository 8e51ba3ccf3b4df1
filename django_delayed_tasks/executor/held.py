"""The claims that this process holds, from the moment they are won until they are settled or released."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from queue import SimpleQueue
from threading import Lock
from typing import Any, NamedTuple

from django.db import Error

from django_delayed_tasks.executor.room.capacity import Capacity
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, lend
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement, released
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


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
    """The claims of this process, and the queue of how they end; thread-safe.

    Attributes:
        capacity: what the claims take until their runs end.
        settled: the number of claims that were settled, released or dropped.
        limited: those of the claims that may have permits.
        ended: the settlements that the settler has yet to write; None tells it to end once all are written.
        claiming: locks that the lanes and the settler hold from making a claim to adding it here.
    """

    def __init__(self, alias: str, capacity: Capacity) -> None:
        self._alias = alias
        self.capacity = capacity
        self._lock = Lock()
        self._tasks: dict[Claim, ClaimedTask] = {}
        self.limited: set[Claim] = set()
        self.settled = 0
        self.ended: SimpleQueue[Settlement | None] = SimpleQueue()
        self.claiming = ClaimingLocks(Lock(), Lock())

    def add(self, tasks: Iterable[ClaimedTask], is_limited: bool = False) -> None:
        """Add tasks that were just claimed; ``is_limited``: they may have permits that others wait for."""
        new = {task.claim: task for task in tasks}
        with self._lock:
            if not self._tasks.keys().isdisjoint(new):  # a server that lost its last commits gives a version twice
                self._forget(new)
            self._tasks |= new
            self.capacity.enter(new)
            if is_limited:
                self.limited.update(new)

    def end(self, claims: Iterable[Claim], settlements: Iterable[Settlement], seconds: float = 0.0) -> None:
        """Note that the run of these tasks has ended after ``seconds``, and queue how it ended."""
        self.capacity.finish(claims, seconds)
        for settlement in settlements:
            self.ended.put(settlement)

    def put_end(self, settlement: Settlement) -> None:
        """Queue how a claim ended for the settler, which writes it; the claim is held until then."""
        self.ended.put(settlement)

    def release(self, tasks: Iterable[ClaimedTask], after: timedelta = timedelta(), lane: str | None = None) -> None:
        """Let the settler release tasks that do not start here: claimable ``after`` that, and then in this ``lane``."""
        given = list(tasks)
        for task in given:
            self.free_resource(task)
        self._withdraw(given)
        for task in given:
            self.ended.put(released(task, after, lane))

    def release_now(self, tasks: Sequence[ClaimedTask]) -> None:
        """Release tasks that will not be started here, before returning.

        Raises:
            DatabaseError: the database does not answer; the tasks are still held.
        """
        settle(self._alias, [released(task) for task in tasks])
        for task in tasks:
            self.free_resource(task)
        self._withdraw(tasks)
        self.remove(task.claim for task in tasks)

    def drop(self, tasks: Iterable[ClaimedTask]) -> None:
        """Forget tasks that have not been started, because other executors own them now."""
        dropped = list(tasks)
        for task in dropped:
            self.free_resource(task)
        self._withdraw(dropped)
        self.remove(task.claim for task in dropped)

    def _withdraw(self, tasks: Iterable[ClaimedTask]) -> None:
        self.capacity.withdraw([task.claim for task in tasks if task.claim in self._tasks])

    def remove(self, claims: Iterable[Claim]) -> None:
        """Remove claims that are settled, released or lost."""
        with self._lock:
            limited = len(self.limited)
            self.settled += self._forget(claims)
            have_left_permits = len(self.limited) < limited
        if have_left_permits:
            self.capacity.limited.wake.set()

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

    def _forget(self, claims: Iterable[Claim]) -> int:
        forgotten = [claim for claim in claims if self._tasks.pop(claim, None)]
        self.capacity.leave(forgotten)
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

    def __len__(self) -> int:
        return len(self._tasks)
