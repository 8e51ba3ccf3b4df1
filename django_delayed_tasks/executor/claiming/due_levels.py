"""The levels that are due, as the agenda has shown them: whose turn it is to be claimed from."""

from bisect import insort
from collections.abc import Collection, Iterable
from datetime import datetime

from django_delayed_tasks import clock
from django_delayed_tasks.executor.room.capacity import Room, kind_in
from django_delayed_tasks.executor.room.claimer import Demand, Kind, order
from django_delayed_tasks.store.claiming.agenda import FRESH, Level
from django_delayed_tasks.store.sql.dialects import LevelKey
from django_delayed_tasks.store.sql.lanes import LOOP


class DueLevels:
    """The levels that the agenda has shown to be due, until it is too old, in the order of their turns.

    Higher priorities come first, among equals the level that was served least recently, and among those that never were
    the one that has waited longest. Levels whose first task is not due yet, but will be in a moment, come last.
    """

    def __init__(self, poll_interval: float) -> None:
        self._fresh_for = min(FRESH, poll_interval)
        self._began = float("-inf")
        self._is_unused = False
        self._now = clock.EPOCH
        self._served: dict[LevelKey, float] = {}
        self._due = _none()

    @property
    def due(self) -> list[Level]:
        """The levels that may have tasks to claim, of each kind in the order of their turns."""
        return [level for levels in self._due.values() for level in levels]

    def forget(self) -> None:
        """Forget which levels are due."""
        self._due = _none()

    def begin(self, due: list[Level], now: datetime) -> None:
        """Start with the levels that are ``due`` at ``now`` or in a moment."""
        self._now = now
        self._began, self._is_unused = clock.monotonic(), True
        served = self._served
        self._served = {key: served[key] for level in due if (key := level.key) in served}
        self.forget()
        for level in sorted(due, key=self._place):
            self._due[kind_in(level.lane)].append(level)

    def take(self, room: Room, but: Collection[Kind] = ()) -> list[Level]:
        """Remove and return the first levels, of each kind ``but`` these as many as there is room for tasks.

        Return none if they were read too long ago, and have been claimed from.
        """
        if not self._is_unused and clock.monotonic() - self._began >= self._fresh_for:
            self.forget()
        taken: list[Level] = []
        if not any(self._due.values()):
            return taken
        for kind, count in ((Kind.THREAD, room.of("")), (Kind.LOOP, room.of(LOOP))):
            if kind not in but:
                taken += self._due[kind][:count]
                del self._due[kind][:count]
        return taken

    def put_back(self, levels: Iterable[Level], is_unused: bool) -> None:
        """Put back those that may have more; ``is_unused``: other tasks came first, the agenda is yet to be used."""
        for level in levels:
            insort(self._due[kind_in(level.lane)], level, key=self._place)
        self._is_unused = is_unused

    def note_served(self, level: Level) -> None:
        """Note that tasks of the level are claimed now."""
        self._served[level.key] = clock.monotonic()

    def served_at(self, level: Level) -> float:
        """Return the monotonic second at which the level was last claimed from."""
        return self._served.get(level.key, float("-inf"))

    def is_ahead(self, level: Level) -> bool:
        """Return whether the first task of the level was not due yet when the agenda was read."""
        return level.earliest > self._now

    def _place(self, level: Level) -> tuple[bool, int, float, datetime]:
        demand = Demand(kind_in(level.lane), level.priority, self.served_at(level))
        return *order(demand, self.is_ahead(level)), level.earliest


def _none() -> dict[Kind, list[Level]]:
    return {Kind.THREAD: [], Kind.LOOP: []}
