"""The results in four sentences, for the top of their page; one is left out if its figures were not measured."""

from collections.abc import Iterable, Iterator
from math import ceil
from operator import itemgetter

from harness.benchmarks import plot_data
from harness.benchmarks.figures import PRODUCT, Figure, Figures
from harness.benchmarks.goals import Goal, measured
from harness.benchmarks.plot_data import Line

DATABASES = ("sqlite", "mariadb", "postgres", "mysql")
MISSED = "../explanation/performance.md#what-was-missed"


def medians(figures: Figures, case: str, variant: str, unit: str) -> list[float]:
    """Return the medians of a figure of this library, of each database on which it was measured."""
    spreads = [figures.spread(Figure(case, database, PRODUCT, variant, unit)) for database in DATABASES]
    return [spread.median for spread in spreads if spread]


def rates(figures: Figures) -> list[float]:
    """Return the tasks that one process runs in a second, on each database."""
    return medians(figures, "drain", "plain, 1 process", "tasks/s")


def latest(figures: Figures, variant: str) -> float | None:
    """Return the milliseconds that 99 % of the tasks are not late by, on the slowest database, rounded up."""
    late = medians(figures, "lateness", variant, "ms p99")
    return ceil(max(late) * 10) / 10 if late else None


def early(figures: Figures) -> float:
    """Return how many tasks began early, of all."""
    return sum(
        sum(medians(figures, "lateness", variant, "early starts")) for variant in ("known ahead", "added at once")
    )


def slowest_growth(figures: Figures) -> tuple[Line, float] | None:
    """Return the backlog that slowed claims down most, and how many times as long one took at its greatest size."""
    grown = [(line, line.ys[-1] / line.ys[0]) for line in plot_data.backlog_lines(figures)]
    return max(grown, key=itemgetter(1), default=None)


def sentences(figures: Figures, goals: Iterable[Goal]) -> Iterator[str]:
    """Yield a sentence on throughput, on lateness, on tasks that wait, and on the goals."""
    if drained := rates(figures):
        yield (
            f"**Throughput.** One process ran {min(drained):,.0f} to {max(drained):,.0f} empty tasks a second, "
            "which the history recorded, while the database server ran on the same processors."
        )
    if late := latest(figures, "known ahead"):
        added = latest(figures, "added at once")
        others = f", and 99 % of the tasks that were to run at once began at most {added} ms late" if added else ""
        yield (
            f"**Lateness.** On the slowest database, 99 % of the tasks that were added in advance began at most {late} "
            f"ms late{others}; {early(figures):.0f} began early."
        )
    if slowest := slowest_growth(figures):
        line, growth = slowest
        yield (
            f"**What waits.** Finding and claiming a hundred due tasks took at most {growth:.2f} times as long with "
            f"{line.xs[-1]:,.0f} tasks for later as with {line.xs[0]:,.0f}; that was on {line.label} ({line.ys[0]:.2f} "
            f"and {line.ys[-1]:.2f} ms)."
        )
    if reached := measured(goals, figures):
        met = sum(goal.is_met(value) for goal, value in reached)
        yield f"**Goals.** Of {len(reached)}, {met} are met and [{len(reached) - met} are missed]({MISSED})."
