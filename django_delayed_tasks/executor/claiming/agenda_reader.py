"""The readings of the agenda: full scans, and quick looks from what an earlier one has shown.

What an agenda has shown makes the next reading quick. A full scan reads the agenda without watermarks, so it also steps
over the dead index entries of finished tasks that the database cannot purge while an old snapshot is open. Where there
are many of those a full scan is slow, and the executor makes one rarely: see "The watermark" in
docs/explanation/claiming.md.
"""

from datetime import timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.executor import meter
from django_delayed_tasks.executor.claiming.lookahead import Lookahead
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.store.claiming.agenda import Agenda, read_agenda
from django_delayed_tasks.store.claiming.looks import KnownLevels, finds_other_levels, look
from django_delayed_tasks.store.claiming.request import MARGIN, watermark
from django_delayed_tasks.store.sql.dialects import LevelKey
from django_delayed_tasks.store.sql.lanes import LOOP

QUICK = 0.003
"""Seconds by which full scans may exceed the quickest one while every reading is still a full scan."""
RARELY, OFTEN = 100, 10
"""How many times as long as a full scan the pause after it is: where looks find every task, and where they do not."""
MAX_PAUSE_IDLE, MAX_PAUSE_BUSY = 2.0, 10.0
"""Seconds between two full scans at most, however slow they are: when idle, and while due tasks are being claimed."""


class FullScans:
    """The full scans: how long the last two took, and when the next one is due."""

    def __init__(self, pauses: int = RARELY) -> None:
        """``pauses``: how many times as long as a slow one the pause after it is."""
        self._pauses = pauses
        self._last = float("-inf")
        self._took = (0.0, 0.0)
        self._quickest = float("inf")

    def note(self, began: float, took: float) -> None:
        """Note a full scan: the monotonic second at which it ``began``, and the seconds it ``took``."""
        self._last, self._took = began, (self._took[1], took)
        self._quickest = min(self._quickest, took)

    def seconds_until_next(self, is_idle: bool) -> float:
        """Return the seconds until the next full scan pays off; 0 when the next reading should be one."""
        # The quicker of the last two counts: one of them may have waited for something else.
        excess = min(self._took) - self._quickest
        if excess < QUICK:
            return 0.0
        pause = min(self._pauses * excess, MAX_PAUSE_IDLE if is_idle else MAX_PAUSE_BUSY)
        return max(0.0, self._last + pause - clock.monotonic())


class AgendaReader:
    """Reads the agenda of one executor, by a full scan or from what it remembers.

    Full scans are made more often by one that ``is_idle``: no task was due at its last poll.
    """

    def __init__(self, alias: str, lookahead: Lookahead, database_clock: clock.DatabaseClock) -> None:
        self._alias = alias
        self.lookahead = lookahead
        self.clock = database_clock
        # Otherwise a task that becomes due at once on a level without others waits for the next full scan.
        self.scans = FullScans(RARELY if finds_other_levels(alias) else OFTEN)
        self._last: Agenda | None = None
        self._last_began = clock.EPOCH
        self._seen: dict[LevelKey, float] = {}

    def read(self, is_idle: bool = False) -> Agenda:
        """Read and return the agenda, and set the clock by it."""
        known = self._known(is_idle)
        began = clock.monotonic()
        agenda = read_agenda(self._alias) if known is None else look(self._alias, known)
        took = clock.monotonic() - began
        self.clock.set(agenda.now, began)
        self.lookahead.note_reading(took)
        if counts := meter.current:
            counts.note_agenda(took)
        if known is None:
            self.scans.note(began, took)
        self._last, self._last_began = agenda, agenda.now - timedelta(seconds=took)
        self._seen |= dict.fromkeys([level.key for level in agenda.levels], began + took)
        return agenda

    def forget(self) -> None:
        """Forget the watermarks: they may be wrong until the next full scan."""
        self._last = None

    def seconds_until_full_scan(self, is_idle: bool = False) -> float:
        """Return the seconds until the next reading is a full scan; 0 if it will be one."""
        return self.scans.seconds_until_next(is_idle)

    def _known(self, is_idle: bool) -> KnownLevels | None:
        """Return the levels from which the next reading starts; None if it is to be a full scan."""
        last, began = self._last, self._last_began
        if last is None or not self.scans.seconds_until_next(is_idle):
            return None
        oldest = clock.monotonic() - 3600.0  # of an unused level; those that handlers name are always known
        self._seen = {key: seen for key, seen in self._seen.items() if seen > oldest}
        named = {
            (LOOP if handler.is_async else "", handler.queue, handler.priority)
            for handler in get_task_handlers().values()
        }
        marks = {level.key: watermark(min(level.earliest, began)) for level in (*last.levels, *last.lanes)}
        return KnownLevels(marks, frozenset((self._seen.keys() | named) - marks.keys()), began - MARGIN)
