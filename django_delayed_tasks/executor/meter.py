"""What an executor counts in memory for metrics, if they were asked for; it costs no statement.

The meter is the process's: ``start()`` sets it, and until then nothing is counted.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from threading import Lock
from typing import Final, NamedTuple

from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.reap import Taken
from django_delayed_tasks.store.settling.settlement import Settlement, is_final_failure
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.support import forks
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

BOUNDS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)
"""Upper bounds of the buckets of lateness and run time, in seconds."""
SHORT_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Upper bounds of the buckets of what the executor itself does."""


class Histogram:
    """Counts of seconds by buckets; the last one has no upper bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = BOUNDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def note(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Return each upper bound, as text, with the count of all durations up to it; "+Inf" is the last one."""
        bounds = [*map(str, self.bounds), "+Inf"]
        return [(bound, float(count)) for bound, count in zip(bounds, accumulate(self.counts), strict=True)]


class Activity(NamedTuple):
    """What an executor does now; ``codes`` has the code of each claim that it holds."""

    executor: str
    threads: int
    busy: int
    awaited: int
    held: int
    codes: Sequence[str]


class Meter:
    """The counts of this process; thread-safe."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.claimed: Counter[str] = Counter()
        self.settled: Counter[tuple[str, RunOutcome]] = Counter()
        self.failed: Counter[str] = Counter()
        self.reaped: Counter[str] = Counter()
        self.lateness: defaultdict[str, Histogram] = defaultdict(Histogram)
        self.run_time: defaultdict[str, Histogram] = defaultdict(Histogram)
        self.claim_time = Histogram(SHORT_BOUNDS)
        self.agenda_time = Histogram(SHORT_BOUNDS)

    def note_claim(self, tasks: Iterable[ClaimedTask], seconds: float) -> None:
        """Count what a claim has won, and how long it took."""
        with self.lock:
            self.claimed.update(task.biz_code for task in tasks)
            self.claim_time.note(seconds)

    def note_agenda(self, seconds: float) -> None:
        """Count a reading of the agenda."""
        with self.lock:
            self.agenda_time.note(seconds)

    def note_reaped(self, taken: Iterable[Taken]) -> None:
        """Count tasks that were taken from dead executors."""
        with self.lock:
            for one in taken:
                self.reaped[one.biz_code] += 1
                self.failed[one.biz_code] += is_final_failure(one.settlement.outcome, one.then)

    def note_ends(
        self,
        settlements: Iterable[Settlement],
        became: Mapping[Claim, Then],
        task_of: Callable[[Claim], ClaimedTask | None],
    ) -> None:
        """Count the ends of runs that were committed; releases are no ends of runs."""
        with self.lock:
            for settlement in settlements:
                then, task = became.get(settlement.claim), task_of(settlement.claim)
                if then is None or then is Then.RELEASED or task is None:
                    continue
                try:
                    self._note_end(task, settlement, then)
                except Exception:  # a handler may have changed its task in any way
                    logger.exception("the end of task %s cannot be counted", settlement.claim)

    def _note_end(self, task: ClaimedTask, settlement: Settlement, then: Then) -> None:
        code, outcome, started, finished = task.biz_code, settlement.outcome, settlement.started, settlement.finished
        self.settled[code, outcome] += 1
        if outcome is not RunOutcome.DONE:
            self.failed[code] += is_final_failure(outcome, then)
        if started is None:
            return
        if task.attempts <= 1:
            late = (started - (settlement.stood_for or task.when)).total_seconds()
            self.lateness[code].note(late if late > 0 else 0.0)
        if finished:
            self.run_time[code].note((finished - started).total_seconds())


current: Meter | None = None
"""The meter of this process; None if nothing is counted."""


def start() -> Meter:
    """Count from now on; return the meter of this process."""
    global current
    if current is None:
        current = Meter()
    return current


def stop() -> None:
    """Count no more, and forget what was counted."""
    global current
    current = None


_activities: set[Callable[[], Activity]] = set()


def watch(activity: Callable[[], Activity]) -> None:
    """Let :func:`activities` ask this executor of the process, from its start to its stop."""
    _activities.add(activity)


def unwatch(activity: Callable[[], Activity]) -> None:
    """Ask this executor no more."""
    _activities.discard(activity)


def activities() -> list[Activity]:
    """Return what the executors of this process do now."""
    return [activity() for activity in list(_activities)]


forks.forget_in_child(stop)
forks.forget_in_child(_activities.clear)
