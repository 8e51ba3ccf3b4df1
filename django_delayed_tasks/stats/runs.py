"""Runs that ended: rates, lateness and run time by code or by period, and what failed."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

from django_delayed_tasks.models.rollups import BOUNDS
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.stats.figures import Figures
from django_delayed_tasks.stats.snapshot import Snapshot, take_snapshot
from django_delayed_tasks.store.records import rollup
from django_delayed_tasks.store.records.rollup import DAY, HOUR, MINUTE, Cell, RollupSum, folded, merged

FAILED: Final = (RunOutcome.FAILED, RunOutcome.EXPIRED)
"""The outcomes of runs that were not done and will not be tried again by themselves."""
TROUBLES: Final = (*FAILED, RunOutcome.RETRIED, RunOutcome.LOST)


@dataclass(frozen=True, slots=True)
class Durations(Figures):
    """Many durations. ``buckets`` are their numbers up to each of ``BOUNDS``, and above the last of these."""

    buckets: Sequence[int]
    sum: timedelta
    longest: timedelta

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self.buckets)

    @property
    def mean(self) -> timedelta | None:
        """The mean; None if there are none."""
        return self.sum / self.count if self.count else None

    def percentile(self, percent: float) -> timedelta | None:
        """Return the duration that ``percent`` of them do not exceed; None if there are none.

        It is estimated within its bucket, and never longer than the longest.
        """
        wanted, below, lower = percent / 100 * self.count, 0, timedelta()
        for count, upper in zip(self.buckets, (*BOUNDS, max(self.longest, BOUNDS[-1])), strict=True):
            if count and below + count >= wanted:
                return min(lower + (upper - lower) * max(0.0, wanted - below) / count, self.longest)
            below, lower = below + count, upper
        return None

    def as_json(self) -> dict[str, Any]:
        """Return the figures in seconds, for JSON."""
        figures = {
            "mean": self.mean,
            "p50": self.percentile(50),
            "p95": self.percentile(95),
            "p99": self.percentile(99),
        }
        found = {name: None if value is None else round(value.total_seconds(), 6) for name, value in figures.items()}
        return {"count": self.count, **found, "longest": round(self.longest.total_seconds(), 6)}


@dataclass(frozen=True)
class Runs(Figures):
    """The runs of one code, or of one period, that ended within ``seconds``."""

    left_out = ("cells",)
    also = ("outcomes", "lateness", "run_time")

    code: str
    start: datetime
    seconds: float
    cells: dict[RunOutcome, Cell] = field(repr=False)

    @property
    def outcomes(self) -> dict[str, int]:
        """The number of runs by the name of their outcome, such as "done"."""
        return {outcome.name.lower(): cell.runs for outcome, cell in sorted(self.cells.items())}

    @property
    def total(self) -> int:
        """The number of runs."""
        return sum(cell.runs for cell in self.cells.values())

    @property
    def done(self) -> int:
        """The number of runs that did what they were to do, rescheduled ones included."""
        return self._count(RunOutcome.DONE, RunOutcome.RESCHEDULED)

    @property
    def failed(self) -> int:
        """The number of runs that failed for good or came too late."""
        return self._count(*FAILED)

    @property
    def lost(self) -> int:
        """The number of runs that their executors' deaths cut short, and whose tasks run again."""
        return self._count(RunOutcome.LOST)

    @property
    def retried(self) -> int:
        """The number of failed runs that are tried again."""
        return self._count(RunOutcome.RETRIED)

    @property
    def rate(self) -> float:
        """Runs per second."""
        return self.total / self.seconds if self.seconds else 0.0

    @cached_property
    def lateness(self) -> Durations:
        """The lateness of first attempts."""
        cell = self._sum
        return Durations(folded(cell.late), cell.late_sum, cell.late_max)

    @cached_property
    def run_time(self) -> Durations:
        """The duration of runs."""
        cell = self._sum
        return Durations(folded(cell.took), cell.took_sum, cell.took_max)

    def plus(self, other: "Runs") -> "Runs":
        """Return these runs and the others together, under the code or period of these."""
        cells = dict(self.cells)
        for outcome, cell in other.cells.items():
            cells[outcome] = merged(cells[outcome], cell) if outcome in cells else cell
        return Runs(self.code, self.start, self.seconds, cells)

    def _count(self, *outcomes: RunOutcome) -> int:
        return sum(self.cells[outcome].runs for outcome in outcomes if outcome in self.cells)

    @cached_property
    def _sum(self) -> Cell:
        total = Cell()
        for cell in self.cells.values():
            total = merged(total, cell)
        return total


@dataclass(frozen=True, slots=True)
class Failures(Figures):
    """The runs of a code that went wrong with one error, and until when.

    ``final`` of them failed for good or came too late, and ``lost`` were cut short and run again, as the others do.
    """

    code: str
    error: str
    count: int
    final: int
    lost: int
    latest: datetime


def rates(last: timedelta = timedelta(hours=1), *, using: str | None = None) -> list[Runs]:
    """Return the runs that ended within about ``last`` before now, by code: the most frequent code first."""
    return rates_of(take_snapshot(using), last)


def rates_of(seen: Snapshot, last: timedelta) -> list[Runs]:
    """Like :func:`rates`, from a snapshot."""
    grain, since = period(seen.now, last, timedelta(days=2))
    rows = rollup.read(seen.alias, grain, since, ("biz_code", "outcome"))
    cells = _by_first(rows)
    seconds = (seen.now - since).total_seconds()
    return sorted((Runs(code, since, seconds, found) for code, found in cells.items()), key=lambda runs: -runs.total)


def series(last: timedelta = timedelta(hours=1), *, code: str | None = None, using: str | None = None) -> list[Runs]:
    """Return the runs that ended within about ``last`` before now, by period, the latest last; of ``code`` if given.

    A period is a minute for up to two hours, an hour for up to eight days, and a day for more.
    """
    return series_of(take_snapshot(using), last, code)


def series_of(seen: Snapshot, last: timedelta, code: str | None = None) -> list[Runs]:
    """Like :func:`series`, from a snapshot."""
    grain, since = period(seen.now, last)
    rows = rollup.read(seen.alias, grain, since, ("start", "outcome"), code=code)
    cells = _by_first(rows)
    length = timedelta(seconds=grain)
    count = (seen.now - since) // length + 1
    starts = [since + number * length for number in range(count)]
    return [Runs(code or "", start, grain, cells.get(start, {})) for start in starts]


def failures(last: timedelta = timedelta(hours=1), *, using: str | None = None) -> list[Failures]:
    """Return the failures within about ``last`` before now, by code and error, the most frequent first."""
    return failures_of(take_snapshot(using), last)


def failures_of(seen: Snapshot, last: timedelta) -> list[Failures]:
    """Like :func:`failures`, from a snapshot."""
    grain, since = period(seen.now, last)
    condition = f"outcome IN ({', '.join(str(int(outcome)) for outcome in TROUBLES)})"
    rows = rollup.read(seen.alias, grain, since, ("biz_code", "error", "outcome"), condition, with_times=False)
    groups: dict[tuple[str, str], list[RollupSum]] = defaultdict(list)
    for row in rows:
        groups[row.by[0], row.by[1]].append(row)
    found = [_failures(code, error, some) for (code, error), some in groups.items()]
    return sorted(found, key=lambda one: (-one.count, one.code, one.error))


def _failures(code: str, error: str, rows: Sequence[RollupSum]) -> Failures:
    final = sum(row.cell.runs for row in rows if row.by[2] in FAILED)
    lost = sum(row.cell.runs for row in rows if row.by[2] == RunOutcome.LOST)
    return Failures(code, error, sum(row.cell.runs for row in rows), final, lost, max(row.latest for row in rows))


def _by_first(rows: Iterable[RollupSum]) -> dict[Any, dict[RunOutcome, Cell]]:
    cells: dict[Any, dict[RunOutcome, Cell]] = defaultdict(dict)
    for row in rows:
        cells[row.by[0]][RunOutcome(row.by[1])] = row.cell
    return cells


def period(now: datetime, last: timedelta, hours_until: timedelta = timedelta(days=8)) -> tuple[int, datetime]:
    """Return the length in seconds of the periods that ``last`` is divided into, and the start of the first one."""
    grain = MINUTE if last <= timedelta(hours=2) else HOUR if last <= hours_until else DAY
    return grain, rollup.start_of(now - last, grain) + timedelta(seconds=grain)
