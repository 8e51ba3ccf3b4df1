"""Levels of one priority take turns: a storm in one queue does not hold up the tasks of another."""

from bisect import insort
from collections.abc import Iterable
from datetime import datetime

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.agenda import Level
from django_delayed_tasks.store.claiming.levels import LevelKey

SMALLEST = 32
"""Tasks that are claimed from a level at once, if it has so many, however many others are due: statements cost."""


class RoundRobin:
    """Due levels, the next one first: by priority, then the one that was not served for longest. Those of which the
    first is due in a moment come last.
    """

    def __init__(self) -> None:
        self._due: list[Level] = []
        self._now = clock.EPOCH
        self._served: dict[LevelKey, float] = {}

    def begin(self, due: Iterable[Level], now: datetime) -> None:
        """These are due ``now`` or in a moment, in the order in which they wait."""
        self._due, self._now = list(due), now
        served = self._served
        self._served = {key: served[key] for key in map(_key, self._due) if key in served}
        # Stable: of those that were never served the one that waits longest stays first.
        self._due.sort(key=self._place)

    def clear(self) -> None:
        """What is due is not known any more."""
        self._due = []

    def next(self) -> Level | None:
        """Whose turn it is; None when nothing is due."""
        return self._due[0] if self._due else None

    def share(self, wanted: int) -> int:
        """How many tasks to claim from it, of so many that are wanted."""
        first = self._due[: wanted // SMALLEST + 1]  # with more than these, it is SMALLEST anyway
        equals = sum(level.priority == first[0].priority for level in first)
        return min(wanted, max(SMALLEST, -(-wanted // equals)))

    def took(self, count: int, wanted: int) -> None:
        """So many were claimed from it; a level that does not give all that is wanted is done with."""
        level = self._due.pop(0)
        self._served[_key(level)] = clock.monotonic()
        if count >= wanted:
            insort(self._due, level, key=self._place)

    def _place(self, level: Level) -> tuple[bool, int, float]:
        return level.earliest > self._now, -level.priority, self._served.get(_key(level), float("-inf"))


def _key(level: Level) -> LevelKey:
    return level.queue, level.priority
