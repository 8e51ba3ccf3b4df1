"""What this executor knows of the agenda, so that it need not walk it again at every poll (DESIGN §5, trap 2)."""

from datetime import UTC, datetime, timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.store import Agenda, KnownLevels, Level, LevelKey

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


class Memory:
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
