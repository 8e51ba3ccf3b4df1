"""The claims of this process, from the moment they are won until they are settled."""

from collections.abc import Callable, Iterable
from threading import Lock

from django_delayed_tasks.store import ClaimedTask
from django_delayed_tasks.store.fences import Claim


class InFlight:
    """Which claims this process holds, and how far along they are; safe for threads.

    ``unfinished`` counts those that wait in the local queue or run, a batch as one; ``work_done`` is (runs that ended,
    seconds they took). ``when_removed()`` is called when claims have ended.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._tasks: dict[Claim, ClaimedTask] = {}
        self._unfinished: set[Claim] = set()
        self._parked: set[Claim] = set()
        self._riding: set[Claim] = set()
        self.work_done = (0, 0.0)
        self.claimed = 0
        self.settled = 0
        self.when_removed: Callable[[], None] = lambda: None

    def add(self, tasks: Iterable[ClaimedTask]) -> None:
        """These were claimed."""
        with self._lock:
            for task in tasks:
                claim = task.claim
                self._tasks[claim] = task
                self._unfinished.add(claim)
                self.claimed += 1

    def park(self, claims: Iterable[Claim]) -> None:
        """These are held, but wait for something else than a thread."""
        with self._lock:
            for claim in claims:
                if claim in self._tasks:
                    self._unfinished.discard(claim)
                    self._parked.add(claim)

    def unpark(self, claims: Iterable[Claim]) -> None:
        """These wait for a thread again, if they are still held."""
        with self._lock:
            for claim in claims:
                self._parked.discard(claim)
                if claim in self._tasks:
                    self._unfinished.add(claim)

    def ride(self, claims: Iterable[Claim]) -> None:
        """These are run in one call with another: they take no thread of their own."""
        with self._lock:
            for claim in claims:
                if claim in self._unfinished:
                    self._unfinished.discard(claim)
                    self._riding.add(claim)

    def alight(self, claims: Iterable[Claim]) -> None:
        """These are run by themselves after all."""
        with self._lock:
            for claim in claims:
                if claim in self._riding:
                    self._riding.discard(claim)
                    self._unfinished.add(claim)

    def finish(self, claim: Claim, seconds: float = 0.0) -> None:
        """Its run ended after so long; it may still have to be settled."""
        with self._lock:
            self._riding.discard(claim)
            if claim in self._unfinished:
                self._unfinished.remove(claim)
                runs, spent = self.work_done
                self.work_done = runs + 1, spent + seconds

    def give_back(self, claim: Claim) -> None:
        """It will be released: it was not claimed for a run."""
        with self._lock:
            if claim in self._tasks:
                self._take_off(claim)
                self.claimed -= 1

    def remove(self, claims: Iterable[Claim]) -> None:
        """These are settled, released or lost."""
        with self._lock:
            for claim in claims:
                self._take_off(claim)
                if self._tasks.pop(claim, None):
                    self.settled += 1
        self.when_removed()

    def _take_off(self, claim: Claim) -> None:
        for where in (self._unfinished, self._parked, self._riding):
            where.discard(claim)

    def get(self, claim: Claim) -> ClaimedTask | None:
        """The task of a claim that is held."""
        return self._tasks.get(claim)

    def tasks(self) -> list[ClaimedTask]:
        """The tasks of all claims held."""
        with self._lock:
            return list(self._tasks.values())

    def claims(self) -> set[Claim]:
        """All claims held."""
        with self._lock:
            return set(self._tasks)

    @property
    def unfinished(self) -> int:
        return len(self._unfinished)

    @property
    def unsettled(self) -> int:
        """Those that wait for a thread, run, or have still to be settled."""
        return len(self._tasks) - len(self._parked)

    def __len__(self) -> int:
        return len(self._tasks)
