"""Where the claimed tasks of one limited handler wait."""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from django_delayed_tasks import clock
from django_delayed_tasks.executor.limits.permits import Permits
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.store import ClaimedTask

PER_KEY: Final = 10
"""Tasks of one key that may wait; others can run the rest, or it is released."""
PER_ROOM: Final = 100
"""Tasks of all keys."""
CROWDED: Final = 2.0
"""Seconds for which a key counts as full after one of its tasks was turned away."""
REMEMBERED: Final = 20
"""Grants from which the speed is known."""
OF_LATE: Final = 5.0
PER_SECOND: Final = 20
"""What has to wait long comes back about so often, all together: claims that lead to nothing cost little."""
LONGEST: Final = 60.0
"""Seconds for which a task is put off at most: it may get its permit sooner than was thought."""


class Waiting(NamedTuple):
    """One task, its key, and since when it waits."""

    task: ClaimedTask
    key: str
    since: float


class Room:
    """First in, first out, as far as its key allows."""

    def __init__(self, handler: TaskHandler, permits: Permits) -> None:
        self.handler = handler
        self.permits = permits
        self._waiting: dict[ClaimedTask, Waiting] = {}
        self._granted: deque[float] = deque(maxlen=REMEMBERED)
        self._turned_away: dict[str, float] = {}
        self._put_back: deque[float] = deque(maxlen=int(LONGEST * PER_SECOND))
        self._closed_until = float("-inf")

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(list(self._waiting.values()))

    def enter(self, task: ClaimedTask, key: str) -> None:
        """Wait from now on."""
        self._waiting[task] = Waiting(task, key, clock.monotonic())

    def leave(self, task: ClaimedTask) -> None:
        """Wait no more."""
        self._waiting.pop(task, None)

    def has_place(self, key: str) -> bool:
        """Whether one more of this key may wait."""
        if not self.permits.is_keyed:
            return True
        if sum(one.key == key for one in self) < PER_KEY:
            return len(self) < PER_ROOM
        self._turned_away[key] = clock.monotonic()
        return False

    def full_keys(self) -> frozenset[str]:
        """Of which some were turned away of late."""
        oldest = clock.monotonic() - CROWDED
        self._turned_away = {key: moment for key, moment in list(self._turned_away.items()) if moment > oldest}
        return frozenset(self._turned_away)

    def is_full(self, coming: int = 0) -> bool:
        """Whether no more tasks of this code are to be claimed, beside those that are coming."""
        return self.is_closed or len(self) + coming >= (PER_ROOM if self.permits.is_keyed else 1)

    def close(self, seconds: float) -> None:
        """There are no permits for so long."""
        self._closed_until = clock.monotonic() + seconds

    @property
    def is_closed(self) -> bool:
        """Whether it is known that there are no permits."""
        return clock.monotonic() < self._closed_until

    def pause(self, soonest: float, count: int) -> tuple[float, float]:
        """From when to when so many that are put back may come again: the more there are, the later."""
        now = clock.monotonic()
        self._put_back.extend([now] * count)
        lately = sum(moment > now - OF_LATE for moment in self._put_back)
        soonest = min(soonest, LONGEST)
        return soonest, min(soonest + max(0.5, lately / PER_SECOND), LONGEST + OF_LATE)

    def note_granted(self, count: int) -> None:
        """So many may run now."""
        self._granted.extend([clock.monotonic()] * count)

    @property
    def speed(self) -> float:
        """Grants per second, of late."""
        if not self._granted:
            return 0.0
        speed = len(self._granted) / max(clock.monotonic() - self._granted[0], 0.05)
        return min(speed, self.permits.longterm_speed)
