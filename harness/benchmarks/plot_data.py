"""What the plots show, taken from figures: no drawing here."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from harness.benchmarks.cases import limits
from harness.benchmarks.figures import BEFORE, PRODUCT, Figure, Figures
from harness.benchmarks.series import Series

NAMES = {"mariadb": "MariaDB", "postgres": "PostgreSQL", "mysql": "MySQL", "sqlite": "SQLite", "redis": "Redis"}
DEFAULT_WAYS = ("plain", "default")
PROCESSES = re.compile(r", (\d+ (?:process|worker)\w*)$")
BACKLOG = re.compile(r"agenda and claim of 100, (?P<size>[\d,]+) on (?P<levels>\d+ levels?)")


@dataclass(frozen=True)
class Bar:
    """One rate."""

    subject: str
    label: str
    value: float


@dataclass(frozen=True)
class Range:
    """Milliseconds; ``latest`` is None if it was not measured."""

    subject: str
    label: str
    median: float
    p99: float
    latest: float | None = None


@dataclass(frozen=True)
class Line:
    """Points from left to right."""

    label: str
    xs: list[float]
    ys: list[float]


def name_of(database: str) -> str:
    """Return the name as people write it."""
    return NAMES.get(database, database)


def drain_bars(figures: Figures) -> dict[str, list[Bar]]:
    """Return the bars by database: each way of each subject at its best number of processes, fastest first."""
    best: dict[tuple[str, str, str], Bar] = {}
    for figure in [*figures.of_case("drain"), *figures.of_case("peers")]:
        spread = figures.spread(figure)
        if figure.unit != "tasks/s" or not spread:
            continue
        key = (figure.database, figure.subject, PROCESSES.sub("", figure.variant))
        if key not in best or spread.median > best[key].value:
            best[key] = Bar(figure.subject, _bar_label(figure), spread.median)
    bars: dict[str, list[Bar]] = {database: [] for database in _databases(figure for figure, *_ in best)}
    for (database, *_), bar in best.items():
        bars[database].append(bar)
    return {database: sorted(of_one, key=lambda bar: -bar.value) for database, of_one in bars.items()}


def _bar_label(figure: Figure) -> str:
    found = PROCESSES.search(figure.variant)
    way = PROCESSES.sub("", figure.variant)
    details = [*([] if way in DEFAULT_WAYS else [way]), *([found[1]] if found else [])]
    return f"{figure.subject} ({', '.join(details)})" if details else figure.subject


def _databases(found: Iterable[str]) -> list[str]:
    """Return each database once, in the usual order, others last."""
    unique = set(found)
    return [*(name for name in NAMES if name in unique), *sorted(unique - NAMES.keys())]


def lateness_ranges(figures: Figures) -> dict[str, list[Range]]:
    """Return all that was measured, by variant, the least late first."""
    ranges: dict[str, list[Range]] = {}
    for figure in figures.of_case("lateness"):
        if figure.unit != "ms p99":
            continue
        values = [figures.spread(figure._replace(unit=unit)) for unit in ("ms p50", "ms p99", "ms max")]
        median, p99, latest = (value.median if value else 0.0 for value in values)
        label = f"{figure.subject}, {name_of(figure.database)}"
        ranges.setdefault(figure.variant, []).append(Range(figure.subject, label, median, p99, latest))
    return {variant: sorted(of_one, key=lambda one: one.p99) for variant, of_one in ranges.items()}


def limits_ranges(figures: Figures, before: Figures) -> dict[str, list[Range]]:
    """Return the lateness beside a limited backlog by database: without it, then for each limit before and now."""
    now = [figure for figure in figures.of_case("limits") if figure.unit == limits.P99]
    together = Figures({**before.values, **figures.values})
    ranges: dict[str, list[Range]] = {}
    for database in _databases(figure.database for figure in now):
        for way in (limits.NO_BACKLOG, limits.SLOTS, limits.KEYS, limits.RATE):
            for subject in (BEFORE, PRODUCT):
                figure = Figure("limits", database, subject, way, limits.P99)
                median, p99 = (together.spread(figure._replace(unit=unit)) for unit in (limits.P50, limits.P99))
                if median and p99:
                    label = f"{way}: {'before' if subject == BEFORE else 'now'}"
                    ranges.setdefault(name_of(database), []).append(Range(subject, label, median.median, p99.median))
    return ranges


def backlog_lines(figures: Figures) -> list[Line]:
    """A line for each database and spread over levels: milliseconds by how many tasks wait for later."""
    points: dict[str, list[tuple[float, float]]] = {}
    for figure in figures.of_case("backlog"):
        found, spread = BACKLOG.fullmatch(figure.variant), figures.spread(figure)
        if found and spread and figure.unit == "ms":
            label = f"{name_of(figure.database)}, {found['levels']}"
            points.setdefault(label, []).append((float(found["size"].replace(",", "")), spread.median))
    return [Line(label, *_columns(of_one)) for label, of_one in points.items() if len(of_one) > 1]


def _columns(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    ordered = sorted(points)
    return [x for x, _ in ordered], [y for _, y in ordered]


def series_lines(figures: Figures, series: Series, case: str) -> list[Line]:
    """A line for each database, to the end of its last period; nothing when the case is not among the figures."""
    measured = {figure.database for figure in figures.of_case(case)}
    return [
        Line(name_of(database), _seconds(one["bin"], len(one["values"]) + 1), [*map(float, one["values"]), last])
        for database, one in series.get(case, {}).items()
        for last in map(float, one["values"][-1:])
        if database in measured
    ]


def _seconds(width: float, count: int) -> list[float]:
    return [width * number for number in range(count)]
