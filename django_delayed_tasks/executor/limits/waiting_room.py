"""The waiting room of one limited handler: its claimed tasks wait here, and the speed of its permits is measured."""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from django_delayed_tasks import clock
from django_delayed_tasks.executor.limits.permits import Permits
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

PER_KEY: Final = 10
"""Tasks of one key that may wait; further ones are released, and other executors may run them."""
PER_ROOM: Final = 100
"""Tasks of all keys that may wait."""
CROWDED: Final = 2.0
"""Seconds for which a key counts as full after one of its tasks was turned away."""
SPAN: Final = 2.0
"""Seconds over which the speed is measured."""
REMEMBERED: Final = 5000
"""Grants that are remembered for it; a handler that gets more is practically unlimited."""
OF_LATE: Final = 5.0
"""Seconds for which a released task counts when the return of further ones is spread."""
PER_SECOND: Final = 20
"""Released tasks that return per second: few enough for futile claims to be cheap."""
LONGEST: Final = 60.0
"""Seconds for which a task is postponed at most: it may get its permit sooner than expected."""


class Waiting(NamedTuple):
    """A waiting task, its key, and the monotonic second at which it began to wait."""

    task: ClaimedTask
    key: str
    since: float


class WaitingRoom:
    """The waiting tasks of one handler: first in, first out, as far as their keys allow."""

    def __init__(self, handler: TaskHandler, permits: Permits) -> None:
        self.handler = handler
        self.permits = permits
        self._waiting: dict[ClaimedTask, Waiting] = {}
        self._granted: deque[float] = deque(maxlen=REMEMBERED)
        self._turned_away: dict[str, float] = {}
        self._put_back: deque[float] = deque(maxlen=int(LONGEST * PER_SECOND))
        self._closed_until: dict[str, float] = {}
        self._short_since: float | None = None
        self._refused: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(list(self._waiting.values()))

    def enter(self, task: ClaimedTask, key: str) -> None:
        """Add a task, which waits from now on."""
        self._waiting[task] = Waiting(task, key, clock.monotonic())

    def leave(self, task: ClaimedTask) -> None:
        """Remove a task, if it is here."""
        self._waiting.pop(task, None)

    def has_place(self, key: str) -> bool:
        """Return whether one more task of this key may wait."""
        if not self.permits.is_keyed:
            return True
        if self.closed_for(key) < CROWDED and sum(one.key == key for one in self) < PER_KEY:
            return len(self) < 3 * PER_ROOM  # claims that were under way when it was full may exceed PER_ROOM
        self._turned_away[key] = clock.monotonic()
        return False

    def full_keys(self) -> frozenset[str]:
        """Return the keys of which tasks were turned away recently, or that have no permits for longer."""
        oldest = clock.monotonic() - CROWDED
        self._turned_away = {key: moment for key, moment in list(self._turned_away.items()) if moment > oldest}
        closed = (key for key in list(self._closed_until) if self.closed_for(key) > CROWDED)
        return frozenset(self._turned_away).union(closed if self.permits.is_keyed else ())

    def is_full(self, coming: int, threads: int) -> bool:
        """Return whether no more tasks of this code are to be claimed, in addition to those that are ``coming``."""
        enough = PER_ROOM if self.permits.is_keyed else threads if self._short_since is None else 1
        return self.is_closed or len(self) + coming >= enough

    def close(self, key: str, seconds: float) -> None:
        """Note that there will be no permits for tasks of this key for this many seconds."""
        now = clock.monotonic()
        still = {closed: until for closed, until in list(self._closed_until.items()) if until > now}
        self._closed_until = still | {key: now + seconds}

    def closed_for(self, key: str) -> float:
        """Return for how many seconds it is known that there are no permits for tasks of this key."""
        return max(0.0, self._closed_until.get(key, 0.0) - clock.monotonic())

    @property
    def opens_in(self) -> float | None:
        """Seconds until there may be permits again for one of the waiting tasks whose key is closed; None for none."""
        return min((seconds for one in self if (seconds := self.closed_for(one.key))), default=None)

    @property
    def is_closed(self) -> bool:
        """Whether it is known that there are no permits for any task."""
        return not self.permits.is_keyed and self.closed_for("") > 0

    def candidates(self) -> dict[ClaimedTask, str]:
        """Return the waiting tasks with their keys, those whose keys were not refused before coming first.

        Tasks whose keys are closed are left out.
        """
        waiting = sorted(self, key=lambda one: one.key in self._refused)
        return {one.task: one.key for one in waiting if not self.closed_for(one.key)}

    def note_granted(self, tasks: list[ClaimedTask], most: int) -> None:
        """Note which of the candidates may run, of the ``most`` that were asked for."""
        now = clock.monotonic()
        self._granted.extend([now] * len(tasks))
        is_short = len(tasks) < min(most, len(self))
        self._short_since = (now if self._short_since is None else self._short_since) if is_short else None
        granted = {self._waiting[task].key for task in tasks if task in self._waiting}
        self._refused = frozenset(one.key for one in self) - granted if is_short else frozenset()

    @property
    def short_for(self) -> float:
        """Seconds for which there have been fewer permits than were asked for."""
        return 0.0 if self._short_since is None else clock.monotonic() - self._short_since

    def pause(self, soonest: float, count: int) -> tuple[float, float]:
        """Return the interval, in seconds from now, over which to spread the return of ``count`` released tasks.

        It begins at ``soonest``; the more tasks were released recently, the longer it is.
        """
        now = clock.monotonic()
        self._put_back.extend([now] * count)
        lately = sum(moment > now - OF_LATE for moment in self._put_back)
        soonest = min(soonest, LONGEST)
        return soonest, min(soonest + max(0.5, lately / max(PER_SECOND, self.speed)), LONGEST + OF_LATE)

    @property
    def speed(self) -> float:
        """Recent grants per second, counted while there were too few."""
        rate = self.permits.rate_speed
        if rate and not self.permits.is_keyed:
            return rate
        since = max(clock.monotonic() - SPAN, self._short_since or 0.0)
        lately = sum(moment >= since for moment in self._granted)
        measured = lately / max(clock.monotonic() - since, 0.1)
        full = len(self.full_keys()) if rate else 0
        return min(measured, rate * full) if full else measured  # a key begins with a burst

    @property
    def last_granted(self) -> float:
        """The monotonic second of the last grant."""
        return self._granted[-1] if self._granted else float("-inf")
