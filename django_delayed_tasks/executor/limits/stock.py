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
FEW_OF_KEYS: Final = 8
"""Blocked tasks that are read in addition to those that may start, of all keys together."""
FRESH: Final = 0.5
"""Seconds for which tasks are kept: more urgent ones may have been added since they were read."""


class Stock:
    """Thread-safe: the lanes fill it, the settler takes from it. The tasks are not claimed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_key: dict[str, tuple[float, deque[ClaimedTask]]] = {}
        self._reserved: dict[Claim, float] = {}

    def __len__(self) -> int:
        with self._lock:
            return sum(len(tasks) for _, tasks in self._by_key.values())

    def fill(self, tasks: Iterable[tuple[ClaimedTask, str]]) -> None:
        """Replace the tasks of these keys; the order is that in which they are to start."""
        now = clock.monotonic()
        with self._lock:
            fresh: dict[str, tuple[float, deque[ClaimedTask]]] = {}
            for task, key in tasks:
                if task.claim not in self._reserved:
                    fresh.setdefault(key, (now + FRESH, deque()))[1].append(task)
            self._by_key = {key: kept for key, kept in self._by_key.items() if kept[0] > now} | fresh

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

    def take(self, key: str, may_start: Callable[[ClaimedTask], bool]) -> ClaimedTask | None:
        """Remove and return the next task of the key; None if it may not start, so that no other overtakes it."""
        now = clock.monotonic()
        with self._lock:
            until, tasks = self._by_key.get(key, (0.0, deque()))
            while tasks and tasks[0].claim in self._reserved:
                tasks.popleft()
            if tasks and until > now and may_start(tasks[0]):
                self._reserved[tasks[0].claim] = now + FRESH
                return tasks.popleft()
            self._by_key.pop(key, None)
        return None

    def clear(self) -> None:
        """Forget the tasks, and which claims are being made."""
        with self._lock:
            self._by_key.clear()
            self._reserved.clear()
