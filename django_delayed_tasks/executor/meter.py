"""The counts that an executor keeps in memory for metrics alone, if they were asked for; they cost no statement.

The meter is the process's: ``start()`` sets it, and until then nothing is counted. The ends of runs are not counted
here: metrics read them from the tally, which the statistics keep anyway.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from threading import Lock
from typing import Final, NamedTuple

from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.support import forks

SHORT_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Upper bounds of the buckets of what the executor itself does."""


class Histogram:
    """Counts of seconds by buckets; the last one has no upper bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float], counts: Sequence[int] = (), total: float = 0.0) -> None:
        self.bounds = bounds
        self.counts = list(counts) or [0] * (len(bounds) + 1)
        self.total = total

    def note(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def copy(self) -> "Histogram":
        """Return a histogram that does not change."""
        return Histogram(self.bounds, self.counts, self.total)

    def cumulative(self) -> list[tuple[str, float]]:
        """Return each upper bound, as text, with the count of all durations up to it; "+Inf" is the last one."""
        bounds = [*map(str, self.bounds), "+Inf"]
        return [(bound, float(count)) for bound, count in zip(bounds, accumulate(self.counts), strict=True)]


class Activity(NamedTuple):
    """The state of an executor; ``codes`` has the code of each claim that it holds."""

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
    """Return the present activities of the executors of this process."""
    return [activity() for activity in list(_activities)]


forks.forget_in_child(stop)
forks.forget_in_child(_activities.clear)
