"""What this process has counted, as metrics read it: the ends of runs from the tally, claims from the meter."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, NamedTuple

from django_delayed_tasks.executor import meter, tally
from django_delayed_tasks.executor.meter import Histogram
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.statistics.rollup import CELL_BOUNDS, Cell, merged

BOUNDS: Final = tuple(bound.total_seconds() for bound in CELL_BOUNDS)


class Counts(NamedTuple):
    """The counts since the process began; ``settled`` is by code and outcome, the others are by code."""

    claimed: Mapping[str, int]
    settled: Mapping[tuple[str, str], int]
    failed: Mapping[str, int]
    reaped: Mapping[str, int]
    lateness: Mapping[str, Histogram]
    run_time: Mapping[str, Histogram]
    claim_time: Histogram
    agenda_time: Histogram


def read_counts() -> Counts | None:
    """Return the counts of this process; None if it does not count for metrics."""
    counting = meter.current
    if counting is None:
        return None
    with counting.lock:
        claimed, times = Counter(counting.claimed), [counting.claim_time.copy(), counting.agenda_time.copy()]
    ends, failed, reaped = tally.totals()
    settled = {(code, RunOutcome(outcome).name.lower()): cell.runs for (code, outcome), cell in ends.items()}
    cells: dict[str, Cell] = {}
    for (code, _), cell in ends.items():
        cells[code] = merged(cells.get(code) or Cell(), cell)
    late = {code: _histogram(cell.late, cell.late_sum) for code, cell in cells.items() if any(cell.late)}
    took = {code: _histogram(cell.took, cell.took_sum) for code, cell in cells.items() if any(cell.took)}
    return Counts(claimed, settled, failed, reaped, late, took, *times)


def _histogram(counts: list[int], total: timedelta) -> Histogram:
    return Histogram(BOUNDS, counts, total.total_seconds())
