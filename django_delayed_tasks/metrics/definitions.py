"""The metrics: the name, the kind and the labels of each, and how its samples are read. Knows no metrics library.

Prometheus's pages and OpenTelemetry's instruments are both made from these definitions.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from django_delayed_tasks.executor import meter, tally
from django_delayed_tasks.executor.meter import Activity, Histogram
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.metrics.cluster import Cluster
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.records.rollup import CELL_BOUNDS, Cell, merged

PREFIX: Final = "delayed_tasks_"

Source = TypeVar("Source")
Labels = tuple[str, ...]
"""The values of a sample's labels, in the order of the definition's ``labels``."""
Samples = Iterable[tuple[Labels, float | Histogram]]
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


class Kind(Enum):
    """The kinds of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric(Generic[Source]):
    """One metric; ``read(source)`` gives its samples, which are histograms if it is one."""

    kind: Kind
    short_name: str
    text: str
    labels: Labels
    read: Callable[[Source], Samples]

    @property
    def name(self) -> str:
        """The full name."""
        return PREFIX + self.short_name

    @property
    def unit(self) -> str:
        """The unit in UCUM, as OpenTelemetry wants it; empty for a number of things."""
        return "s" if self.short_name.endswith("_seconds") else ""


def _by_code(counts: Mapping[str, float | Histogram]) -> Samples:
    return [((code,), value) for code, value in counts.items()]


def _from_zero(counts: Mapping[str, int]) -> Samples:
    """Return a sample for each handler, too: a first failure is then seen as an increase, from 0 to 1."""
    return _by_code({**dict.fromkeys(get_task_handlers(), 0), **counts})


def _unlimited() -> dict[tuple[str, ...], float]:
    """Return the sample 0 for each limited handler of this process: none of its tasks waits for a limit."""
    return {(handler.queue, code): 0.0 for code, handler in get_task_handlers().items() if handler.is_limited}


def _slots(activity: Activity) -> Iterator[tuple[Labels, tuple[int, int]]]:
    claims = Counter(activity.codes)
    for code, handler in get_task_handlers().items():
        if handler.max_concurrent:
            yield (code,), (handler.max_concurrent, claims[code])


COUNTED: Final[tuple[Metric[Counts], ...]] = (
    Metric(Kind.COUNTER, "claimed", "Tasks claimed.", ("code",), lambda counts: _by_code(counts.claimed)),
    Metric(
        Kind.COUNTER, "settled", "Ends of runs, by outcome.", ("code", "outcome"),
        lambda counts: counts.settled.items(),
    ),
    Metric(Kind.COUNTER, "failed", "Tasks that failed for good.", ("code",), lambda counts: _from_zero(counts.failed)),
    Metric(
        Kind.COUNTER, "reaped", "Tasks taken from dead executors.", ("code",),
        lambda counts: _from_zero(counts.reaped),
    ),
    Metric(
        Kind.HISTOGRAM, "lateness_seconds", "Seconds from the time of a task to the start of its first attempt.",
        ("code",), lambda counts: _by_code(counts.lateness),
    ),
    Metric(
        Kind.HISTOGRAM, "run_seconds", "Seconds that runs took.", ("code",), lambda counts: _by_code(counts.run_time)
    ),
    Metric(
        Kind.HISTOGRAM, "claim_seconds", "Seconds that claims took.", (), lambda counts: [((), counts.claim_time)]
    ),
    Metric(
        Kind.HISTOGRAM, "agenda_seconds", "Seconds that readings of the agenda took.", (),
        lambda counts: [((), counts.agenda_time)],
    ),
)  # fmt: skip
"""The counters of a process since its start."""

ACTIVE: Final[tuple[Metric[Activity], ...]] = (
    Metric(Kind.GAUGE, "threads", "Threads that run tasks.", (), lambda now: [((), now.threads)]),
    Metric(Kind.GAUGE, "threads_busy", "Threads that are running a task.", (), lambda now: [((), now.busy)]),
    Metric(Kind.GAUGE, "async_runs", "Runs on the event loop.", (), lambda now: [((), now.awaited)]),
    Metric(Kind.GAUGE, "unsettled", "Claims that are not settled.", (), lambda now: [((), now.held)]),
    Metric(
        Kind.GAUGE, "slots", "Runs that max_concurrent allows in the whole cluster.", ("code",),
        lambda now: [(labels, most) for labels, (most, _) in _slots(now)],
    ),
    Metric(
        Kind.GAUGE, "slots_in_use", "Claims of this executor that occupy a slot.", ("code",),
        lambda now: [(labels, used) for labels, (_, used) in _slots(now)],
    ),
)  # fmt: skip
"""The state of one executor."""

SHARED: Final[tuple[Metric[Cluster], ...]] = (
    Metric(
        Kind.GAUGE, "database_up", "1 if the tasks' database could be read; if not, 0, and no metrics from it.",
        (), lambda cluster: [((), int(cluster.is_known))],
    ),
    Metric(
        Kind.GAUGE, "overdue_seconds",
        "Seconds for which the first due task of the queue has waited; paused queues, and tasks that wait for a limit,"
        " are left out.", ("queue",),
        lambda cluster: [((queue,), seconds) for queue, seconds in cluster.overdue.items()],
    ),
    Metric(
        Kind.GAUGE, "limited_seconds",
        "Seconds for which the first due task of the code has waited for a limit of its handler.", ("queue", "code"),
        lambda cluster: {**_unlimited(), **cluster.limited}.items() if cluster.is_known else (),
    ),
    Metric(
        Kind.GAUGE, "executors", "Live executors.", (),
        lambda cluster: [((), cluster.executors)] if cluster.is_known else [],
    ),
    Metric(
        Kind.GAUGE, "pool_size", "Enabled resources of the pool.", ("pool",),
        lambda cluster: [((pool,), size) for pool, (size, _) in cluster.pools.items()],
    ),
    Metric(
        Kind.GAUGE, "pool_in_use", "Resources of the pool that are leased.", ("pool",),
        lambda cluster: [((pool,), in_use) for pool, (_, in_use) in cluster.pools.items()],
    ),
)  # fmt: skip
"""The facts that only the database knows; each is the same in every process."""
