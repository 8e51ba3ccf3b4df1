"""What this executor remembers of the agenda, and when it reads the agenda with a full scan.

A full scan reads the agenda without watermarks, so it also steps over the dead index entries of finished tasks that the
database cannot purge while an old snapshot is open. Where there are many of those a full scan is slow, and the executor
makes one rarely: see "The watermark" in docs/explanation/claiming.md.
"""

from datetime import UTC, datetime, timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.store.claiming.agenda import Agenda, KnownLevels, Level, LevelKey

MARGIN = timedelta(seconds=5)
"""How far the watermark of a level stays behind its earliest pending task. A row below the watermark, of a transaction
that was committed late, is found by the next full scan."""
_FIRST = datetime.min.replace(tzinfo=UTC)
REMEMBERED = 3600.0
"""Seconds for which an unused level is remembered; a level that a handler names is always known."""


def floor_of(level: Level) -> datetime:
    """Return the watermark of the level: no claimable task is expected before it."""
    return _before(level.earliest)


def _before(moment: datetime) -> datetime:
    # Near datetime.min the subtraction would overflow.
    return moment - MARGIN if moment > _FIRST + MARGIN else _FIRST


class AgendaMemory:
    """The agenda that was read last, from which the next reading can start."""

    def __init__(self) -> None:
        self._last: Agenda | None = None
        self._seen: dict[LevelKey, float] = {}

    def learn(self, agenda: Agenda) -> None:
        """Remember an agenda that was just read."""
        self._last = agenda
        self._seen.update(dict.fromkeys(((level.queue, level.priority) for level in agenda.levels), clock.monotonic()))

    def forget(self) -> None:
        """Forget the watermarks: they may be wrong until the next full scan."""
        self._last = None

    def recall(self) -> KnownLevels | None:
        """Return what the next reading can start from; None if it must be a full scan."""
        last = self._last
        if last is None:
            return None
        oldest = clock.monotonic() - REMEMBERED
        self._seen = {key: seen for key, seen in self._seen.items() if seen > oldest}
        named = {(handler.queue, handler.priority) for handler in get_task_handlers().values()}
        floors = {(level.queue, level.priority): _before(min(level.earliest, last.now)) for level in last.levels}
        return KnownLevels(floors, frozenset((self._seen.keys() | named) - floors.keys()), last.now - MARGIN)


QUICK = 0.003
"""Seconds by which full scans may exceed the quickest one while every reading is still a full scan."""


SHARE = 0.01
"""The fraction of the time that slow full scans may take."""


RAREST_IDLE, RAREST_BUSY = 2.0, 10.0
"""Seconds between two full scans at most, however slow they are: when idle, and while due tasks are being claimed."""


class Sweeps:
    """The full scans: how long the last two took, and when the next one is due."""

    def __init__(self) -> None:
        self.is_idle = False
        """Whether no task was due at the last poll."""
        self._last = float("-inf")
        self._took = (0.0, 0.0)
        self._quickest = float("inf")

    def note(self, began: float, took: float) -> None:
        """Note a full scan: the monotonic second at which it ``began``, and the seconds it ``took``."""
        self._last, self._took = began, (self._took[1], took)
        self._quickest = min(self._quickest, took)

    def seconds_until_next(self) -> float:
        """Return the seconds until the next full scan pays off; 0 when the next reading should be one."""
        # The quicker of the last two counts: one of them may have waited for something else.
        excess = min(self._took) - self._quickest
        if excess < QUICK:
            return 0.0
        pause = min(excess / SHARE, RAREST_IDLE if self.is_idle else RAREST_BUSY)
        return max(0.0, self._last + pause - clock.monotonic())
