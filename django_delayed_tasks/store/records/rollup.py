"""The rollup: counts of runs by period, code and outcome, which executors add to and pages read (docs/decisions/0023).

Each count is added to a minute, an hour and a day at once, so nothing has to be folded later, and a period that is over
never changes.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, Final, NamedTuple

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.models.rollups import BOUNDS, ERROR_LENGTH, LATE, TOOK
from django_delayed_tasks.store.sql.charsets import in_ascii
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.portions import portions
from django_delayed_tasks.store.sql.tables import STATISTIC
from django_delayed_tasks.store.sql.transactions import briefly, delete_rows, read_rows

MINUTE, HOUR, DAY = 60, 3600, 86_400
"""The grains, as they are stored: seconds of a period."""
KEPT: Final[Mapping[int, timedelta]] = {
    MINUTE: timedelta(hours=26),
    HOUR: timedelta(days=32),
    DAY: timedelta(days=400),
}
"""The time for which the rows of each grain are kept."""
FINE: Final = (timedelta(milliseconds=1), timedelta(milliseconds=3))
"""Bounds below the first one of the rollup, which only counts in memory have: metrics tell them apart."""
CELL_BOUNDS: Final = (*FINE, *BOUNDS)
"""The upper bounds of the buckets of a cell; a last bucket has everything above."""

_IDENTITY: Final = ("grain", "start", "biz_code", "outcome", "error")
_SUMS: Final = ("runs", "late_sum", "took_sum", *LATE, *TOOK)
_MAXIMA: Final = ("late_max", "took_max")
_UNKNOWN: Final = (0,) * len(FINE)
"""The finer buckets of a cell that was read from the rollup: the first column has their counts."""


Key = tuple[str, int, str]
"""The columns by which runs are counted: code, outcome, and error, which is empty unless they failed."""


@dataclass(slots=True)
class Cell:
    """The count of runs of one key, with how late they started and how long they took, by ``CELL_BOUNDS``."""

    runs: int = 0
    late_sum: timedelta = timedelta()
    late_max: timedelta = timedelta()
    took_sum: timedelta = timedelta()
    took_max: timedelta = timedelta()
    late: list[int] = field(default_factory=lambda: [0] * (len(CELL_BOUNDS) + 1))
    took: list[int] = field(default_factory=lambda: [0] * (len(CELL_BOUNDS) + 1))

    def count(self, runs: int, late: Sequence[timedelta], took: Sequence[timedelta]) -> None:
        """Count runs; ``late`` and ``took`` hold the lateness and the run time of those runs that have one to count."""
        self.runs += runs
        if late:
            least, most = min(late), max(late)
            _sort_into(self.late, late, least, most)
            self.late_sum = sum(late if least.days >= 0 else [max(one, timedelta()) for one in late], self.late_sum)
            self.late_max = max(self.late_max, most)
        if took:
            most = max(took)
            _sort_into(self.took, took, min(took), most)
            self.took_sum = sum(took, self.took_sum)
            self.took_max = max(self.took_max, most)

    def values(self) -> tuple[int, ...]:
        """Return the values of the columns ``_SUMS`` and ``_MAXIMA``."""
        late, took = folded(self.late), folded(self.took)
        sums = (self.runs, self.late_sum // timedelta.resolution, self.took_sum // timedelta.resolution, *late, *took)
        return (*sums, self.late_max // timedelta.resolution, self.took_max // timedelta.resolution)


def _sort_into(buckets: list[int], durations: Sequence[timedelta], least: timedelta, most: timedelta) -> None:
    first = bisect_left(CELL_BOUNDS, least)
    if first == bisect_left(CELL_BOUNDS, most):  # as in most batches: a search for each costs more than the rest
        buckets[first] += len(durations)
    else:
        for duration in durations:
            buckets[bisect_left(CELL_BOUNDS, duration)] += 1


def folded(buckets: Sequence[int]) -> list[int]:
    """Convert counts by ``CELL_BOUNDS`` into counts by ``BOUNDS``, which are those that the rollup keeps."""
    short = len(FINE) + 1
    return [sum(buckets[:short]), *buckets[short:]]


def merged(one: Cell, other: Cell) -> Cell:
    """Return the sum of two counts."""
    return Cell(
        one.runs + other.runs,
        one.late_sum + other.late_sum,
        max(one.late_max, other.late_max),
        one.took_sum + other.took_sum,
        max(one.took_max, other.took_max),
        [sum(pair) for pair in zip(one.late, other.late, strict=True)],
        [sum(pair) for pair in zip(one.took, other.took, strict=True)],
    )


def shortened_error(text: str) -> str:
    """Return an error as statistics name it: its first line, cut to what the column has room for."""
    return text.strip().partition("\n")[0][:ERROR_LENGTH]


def start_of(moment: datetime, grain: int) -> datetime:
    """Return the start of the period, of ``grain`` seconds, that a moment lies in."""
    return datetime.fromtimestamp(moment.timestamp() // grain * grain, UTC)


def add(alias: str, counts: Mapping[Key, Cell], now: datetime) -> None:
    """Add these counts to the periods that ``now`` lies in, in one transaction."""
    briefly(alias, partial(_add, alias=alias, counts=counts, now=now))


def _add(cursor: CursorWrapper, alias: str, counts: Mapping[Key, Cell], now: datetime) -> None:
    dialect = dialect_of(connections[alias])
    held = counts if dialect.holds_all_texts else _in_ascii(counts)
    # In the order of the index: executors that add to the same rows must not lock them in different orders.
    rows = sorted(
        (grain, dialect.stored(start_of(now, grain)), *key, *cell.values())
        for grain in KEPT
        for key, cell in held.items()
    )
    for some in portions(rows):
        statement = _insert(len(some), _assignments(alias))
        cursor.execute(statement, [value for row in some for value in row])


def _in_ascii(counts: Mapping[Key, Cell]) -> Mapping[Key, Cell]:
    """Return the counts with their errors in ASCII, for a database that does not hold all texts."""
    found: dict[Key, Cell] = {}
    for (code, outcome, error), cell in counts.items():
        key = (code, outcome, in_ascii(error)[:ERROR_LENGTH])
        found[key] = merged(found[key], cell) if key in found else cell
    return found


def _assignments(alias: str) -> str:
    dialect = dialect_of(connections[alias])
    assignments = [f"{column} = {STATISTIC}.{column} + {dialect.new(column)}" for column in _SUMS]
    assignments += [
        f"{column} = {dialect.greatest(f'{STATISTIC}.{column}', dialect.new(column))}" for column in _MAXIMA
    ]
    return dialect.on_conflict(", ".join(assignments), ", ".join(_IDENTITY))


@cache
def _insert(count: int, conflict: str) -> str:
    columns = (*_IDENTITY, *_SUMS, *_MAXIMA)
    row = f"({', '.join(['%s'] * len(columns))})"
    return f"INSERT INTO {STATISTIC} ({', '.join(columns)}) VALUES {', '.join([row] * count)}{conflict}"


def purge(alias: str, now: datetime, batch_size: int) -> int:
    """Delete a batch of the rows of each grain that are older than they are kept; return the number of rows."""
    return sum(_purge(alias, grain, now - kept, batch_size) for grain, kept in KEPT.items())


def _purge(alias: str, grain: int, before: datetime, batch_size: int) -> int:
    moment = dialect_of(connections[alias]).stored(before)
    sql = f"SELECT id FROM {STATISTIC} WHERE grain = {grain:d} AND start < %s ORDER BY start LIMIT {batch_size:d}"
    old = [pk for (pk,) in read_rows(alias, sql, [moment])]
    delete_rows(alias, STATISTIC, old)
    return len(old)


class RollupSum(NamedTuple):
    """Rows of the rollup, summed up by some of their columns, which are in ``by``."""

    by: tuple[Any, ...]
    cell: Cell
    latest: datetime


def read(
    alias: str,
    grain: int,
    since: datetime,
    by: Sequence[str],
    only: str = "1 = 1",
    code: str | None = None,
    with_times: bool = True,
) -> list[RollupSum]:
    """Return the sums by these columns of the periods that begin at ``since`` or later.

    ``only`` is a condition; with ``code``, only the runs of this code count. Without times, which are most of what has
    to be read, cells have only the number of runs.
    """
    dialect = dialect_of(connections[alias])
    figures = [_sum(column) for column in _SUMS] + [f"MAX({column})" for column in _MAXIMA]
    names = [*by, "MAX(start)", *(figures if with_times else figures[:1])]
    table, periods = _periods(dialect, grain)
    condition = f"{periods} AND start >= %s AND {only}"
    parameters = [dialect.stored(start_of(since, grain))]
    if code is not None:
        condition += " AND biz_code = %s"
        parameters.append(code)
    columns = ", ".join(by)
    sql = f"SELECT {', '.join(names)} FROM {table} WHERE {condition} GROUP BY {columns} ORDER BY {columns}"
    moments = [number for number, column in enumerate(by) if column == "start"]
    found = []
    for row in read_rows(alias, sql, parameters):
        keys, latest, values = list(row[: len(by)]), row[len(by)], [int(value) for value in row[len(by) + 1 :]]
        for number in moments:
            keys[number] = dialect.to_datetime(keys[number])
        found.append(
            RollupSum(tuple(keys), _cell(values) if with_times else Cell(values[0]), dialect.to_datetime(latest))
        )
    return found


def _sum(column: str) -> str:
    """Return the sum as a float: MariaDB and MySQL sum up integers as decimals, which takes twice as long."""
    return f"SUM({column} + 0e0)"


def _periods(dialect: Dialect, grain: int) -> tuple[str, str]:
    """Return the table and the condition to find the periods of a grain by, so that their starts bound what is read."""
    return dialect.by_index(STATISTIC, "ddt_statistic_identity"), dialect.exactly("grain", grain)


def _cell(values: Sequence[int]) -> Cell:
    runs, late_sum, took_sum = values[:3]
    late, took = values[3 : 3 + len(LATE)], values[3 + len(LATE) : -2]
    late_max, took_max = values[-2:]
    return Cell(
        runs,
        late_sum * timedelta.resolution,
        late_max * timedelta.resolution,
        took_sum * timedelta.resolution,
        took_max * timedelta.resolution,
        [*_UNKNOWN, *late],
        [*_UNKNOWN, *took],
    )


def busiest_minutes(alias: str, since: datetime) -> dict[str, int]:
    """Return the most runs of each code that ended in one minute since then."""
    dialect = dialect_of(connections[alias])
    table, periods = _periods(dialect, MINUTE)
    minutes = f"SELECT biz_code, {_sum('runs')} AS ended FROM {table} WHERE {periods} AND start >= %s"
    sql = f"SELECT biz_code, MAX(ended) FROM ({minutes} GROUP BY biz_code, start) minutes GROUP BY biz_code"
    return {code: int(runs) for code, runs in read_rows(alias, sql, [dialect.stored(since)])}
