"""The results in four sentences, for the top of their page; one is left out if its figures were not measured."""

from collections.abc import Iterable, Iterator
from math import ceil

from harness.benchmarks import plot_data
from harness.benchmarks.figures import PRODUCT, Figure, Figures
from harness.benchmarks.goals import Goal, measured

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


def sentences(figures: Figures, goals: Iterable[Goal]) -> Iterator[str]:
    """Yield a sentence on throughput, on lateness, on tasks that wait, and on the goals."""
    if drained := rates(figures):
        yield (
            f"**Throughput.** One process ran {min(drained):,.0f} to {max(drained):,.0f} empty tasks a second, each "
            "with a row in the history, next to the server on the same processors."
        )
    if late := latest(figures, "known ahead"):
        added = latest(figures, "added at once")
        others = f"; of those that another process added for at once, {added} ms" if added else ""
        yield (
            f"**Lateness.** 99 % of the tasks that were known ahead began at most {late} ms late{others}; "
            f"{early(figures):.0f} began early."
        )
    if lines := plot_data.backlog_lines(figures):
        few, many = (at([line.xs[end] for line in lines]) for end, at in ((0, min), (-1, max)))
        yield (
            f"**What waits.** To find and claim a hundred due tasks took at most "
            f"{max(line.ys[-1] / line.ys[0] for line in lines):.2f} times as long with {many:,.0f} tasks that wait for "
            f"later as with {few:,.0f}."
        )
    if reached := measured(goals, figures):
        met = sum(goal.is_met(value) for goal, value in reached)
        yield f"**Goals.** Of {len(reached)}, {met} are met and [{len(reached) - met} are missed]({MISSED})."
