"""What this executor knows of the agenda, so that it need not walk it again at every poll, and when it is read whole.

A sweep is a reading of the whole agenda. It steps over finished tasks that an old snapshot keeps the database from
clearing away: where there are many it is slow, and rare.
"""

from datetime import UTC, datetime, timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.store.claiming.agenda import Agenda, Level
from django_delayed_tasks.store.claiming.levels import KnownLevels, LevelKey

MARGIN = timedelta(seconds=5)
"""How far a floor stays behind the earliest pending task of its level. A row whose transaction was committed later
than that is found by a sweep."""
_FIRST = datetime.min.replace(tzinfo=UTC)
REMEMBERED = 3600.0
"""Seconds for which a level is known after it was in use; one that a handler names is known always."""


def floor_of(level: Level) -> datetime:
    """A moment before which nothing claimable is expected at this level."""
    return _before(level.earliest)


def _before(moment: datetime) -> datetime:
    # Near the beginning of the calendar there is nothing before.
    return moment - MARGIN if moment > _FIRST + MARGIN else _FIRST


class AgendaMemory:
    """Of the agendas that were read, the last."""

    def __init__(self) -> None:
        self._last: Agenda | None = None
        self._seen: dict[LevelKey, float] = {}

    def learn(self, agenda: Agenda) -> None:
        """This is how it stands."""
        self._last = agenda
        self._seen.update(dict.fromkeys(((level.queue, level.priority) for level in agenda.levels), clock.monotonic()))

    def forget(self) -> None:
        """Floors may be wrong: a sweep must tell."""
        self._last = None

    def recall(self) -> KnownLevels | None:
        """What the next reading can start from."""
        last = self._last
        if last is None:
            return None
        oldest = clock.monotonic() - REMEMBERED
        self._seen = {key: seen for key, seen in self._seen.items() if seen > oldest}
        named = {(handler.queue, handler.priority) for handler in get_task_handlers().values()}
        floors = {(level.queue, level.priority): _before(min(level.earliest, last.now)) for level in last.levels}
        return KnownLevels(floors, frozenset((self._seen.keys() | named) - floors.keys()), last.now - MARGIN)


QUICK = 0.003
"""Seconds. As long as sweeps take hardly longer than the quickest did, every reading is one."""


SHARE = 0.01
"""The part of the time that slow sweeps may take."""


RAREST_IDLE, RAREST_BUSY = 2.0, 10.0
"""Seconds between two sweeps, however slow they are: when nothing was due, and while others wait to be claimed."""


class Sweeps:
    """How long the last ones took, and when the next is due."""

    def __init__(self) -> None:
        self.is_idle = False
        """Whether nothing was due, the last time somebody looked."""
        self._last = float("-inf")
        self._took = (0.0, 0.0)
        self._quickest = float("inf")

    def note(self, began: float, took: float) -> None:
        """One was made: the monotonic second of its begin, and its length."""
        self._last, self._took = began, (self._took[1], took)
        self._quickest = min(self._quickest, took)

    def seconds_until_next(self) -> float:
        """How long no sweep is worth its time; 0 when the next reading should be one."""
        # The quicker of two: one that had to wait for something else says nothing.
        excess = min(self._took) - self._quickest
        if excess < QUICK:
            return 0.0
        pause = min(excess / SHARE, RAREST_IDLE if self.is_idle else RAREST_BUSY)
        return max(0.0, self._last + pause - clock.monotonic())
