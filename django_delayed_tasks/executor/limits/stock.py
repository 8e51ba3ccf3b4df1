"""The tasks of one limited code that were read and have no slot yet: the next ones when a run hands its slot on."""

from collections import deque
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Final

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.sql.fences import Claim

ENOUGH: Final = 100
"""Tasks of the open lane that are read at once; fewer than half of them are too few."""
FRESH: Final = 0.5
"""Seconds for which tasks are kept: more urgent ones may have been added since they were read."""


class Stock:
    """Thread-safe: the lanes fill it, the settler takes from it. The tasks are not claimed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tasks: deque[ClaimedTask] = deque()
        self._until = 0.0
        self._reserved: dict[Claim, float] = {}

    def __len__(self) -> int:
        with self._lock:
            return len(self._tasks)

    def fill(self, tasks: Iterable[ClaimedTask]) -> None:
        """Replace the tasks; the order is that in which they are to start."""
        with self._lock:
            self._tasks = deque(task for task in tasks if task.claim not in self._reserved)
            self._until = clock.monotonic() + FRESH

    def reserve(self, claims: Iterable[Claim]) -> None:
        """Note claims that are being made elsewhere in this process: their tasks are not to be taken from here."""
        with self._lock:
            self._reserved |= dict.fromkeys(claims, clock.monotonic() + FRESH)

    def take_back(self, claims: Iterable[Claim]) -> None:
        """Note that these claims were not made: their tasks may be claimed, or taken from here."""
        with self._lock:
            for claim in claims:
                self._reserved.pop(claim, None)

    def reserved(self) -> set[Claim]:
        """Return the claims that were made a moment ago, or are being made."""
        now = clock.monotonic()
        with self._lock:
            self._reserved = {claim: until for claim, until in self._reserved.items() if until > now}
            return set(self._reserved)

    def take(self, may_start: Callable[[ClaimedTask], bool]) -> ClaimedTask | None:
        """Remove and return the next task; None if it may not start, so that no other overtakes it."""
        now = clock.monotonic()
        with self._lock:
            while self._tasks and self._tasks[0].claim in self._reserved:
                self._tasks.popleft()
            if self._tasks and self._until > now and may_start(self._tasks[0]):
                self._reserved[self._tasks[0].claim] = now + FRESH
                return self._tasks.popleft()
            self._tasks.clear()
        return None

    def clear(self) -> None:
        """Forget the tasks, and which claims are being made."""
        with self._lock:
            self._tasks.clear()
            self._reserved.clear()
