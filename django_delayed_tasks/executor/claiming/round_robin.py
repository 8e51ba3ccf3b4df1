"""Round robin between levels of the same priority, so that a storm in one queue does not hold up another queue."""

from bisect import insort
from datetime import datetime

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.agenda import Level, LevelKey

SMALLEST = 32
"""The smallest share of a level, however many other levels are due: each claim costs a statement."""
FRESH = 0.05
"""Seconds for which an agenda counts as current; after that, tasks of other levels may have become due.

Each agenda is claimed from at least once, however old it is: with very many levels, reading it takes longer than this.
"""


class RoundRobin:
    """The due levels in the order in which to claim from them.

    Higher priorities come first, and among equals the level that was served least recently. Levels whose first task is
    not due yet, but will be in a moment, come last.

    Attributes:
        due: the levels that may have tasks to claim, the next one first.
    """

    def __init__(self, poll_interval: float) -> None:
        self._fresh_for = min(FRESH, poll_interval)
        self._began = float("-inf")
        self._is_unused = False
        self._now = clock.EPOCH
        self._served: dict[LevelKey, float] = {}
        self.due: list[Level] = []

    def begin(self, due: list[Level], now: datetime) -> None:
        """Start with the levels that are ``due`` at ``now`` or in a moment, those that have waited longest first."""
        self._now = now
        self._began, self._is_unused = clock.monotonic(), True
        served = self._served
        self._served = {key: served[key] for level in due if (key := level[:2]) in served}
        # The sort is stable: among levels that were never served the longest-waiting one stays first.
        self.due = sorted(due, key=self._place)

    def expire(self) -> None:
        """Forget which levels are due if that was read too long ago and has been claimed from."""
        if not self._is_unused and clock.monotonic() - self._began >= self._fresh_for:
            self.due = []
        self._is_unused = False

    def share(self, wanted: int) -> int:
        """Return how many of the ``wanted`` tasks to claim from the next level."""
        first = self.due[: wanted // SMALLEST + 1]  # with more than these, it is SMALLEST anyway
        equals = len([level for level in first if level.priority == first[0].priority])
        return min(wanted, max(SMALLEST, -(-wanted // equals)))

    def took(self, count: int, wanted: int) -> None:
        """Note that ``count`` tasks were claimed from the next level; if fewer than ``wanted``, it is exhausted."""
        level = self.due.pop(0)
        self._served[level[:2]] = clock.monotonic()
        if count >= wanted:
            insort(self.due, level, key=self._place)

    def _place(self, level: Level) -> tuple[bool, int, float]:
        return level.earliest > self._now, -level.priority, self._served.get(level[:2], float("-inf"))
