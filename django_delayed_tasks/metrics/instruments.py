"""The metrics as instruments of OpenTelemetry, which are read when the project's readers collect; needs ``otel``.

Nothing is recorded when a task runs: one measurement of the SDK takes about 10 microseconds, and a whole run about 60.
OpenTelemetry has no histogram that is read at collection. So a histogram is the series that Prometheus makes of one:
``…_bucket`` with the attribute ``le``, ``…_sum`` and ``…_count``.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial

from django.db import connections
from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from django_delayed_tasks.conf import settings
from django_delayed_tasks.executor import meter
from django_delayed_tasks.executor.meter import Histogram
from django_delayed_tasks.metrics.cluster import UNKNOWN, Cluster, read_cluster
from django_delayed_tasks.metrics.definitions import ACTIVE, COUNTED, SHARED, Counts, Kind, Metric, Source, read_counts

NAME = "django_delayed_tasks"
Callback = Callable[[CallbackOptions], Iterable[Observation]]
Part = Callable[[Histogram], Iterable[tuple[dict[str, str], float]]]
"""The share of a histogram that one of its series takes, with more attributes."""
PARTS: dict[str, Part] = {
    "_bucket": lambda histogram: [({"le": bound}, count) for bound, count in histogram.cumulative()],
    "_sum": lambda histogram: [({}, histogram.total)],
    "_count": lambda histogram: [({}, sum(histogram.counts))],
}


@cache
def create() -> None:
    """Create the instruments on the project's meter provider, once in a process and its forks."""
    of_project = metrics.get_meter(NAME)
    for counted in COUNTED:
        if counted.kind is Kind.HISTOGRAM:
            for suffix, part in PARTS.items():
                callback = partial(_counted, counted, part)
                unit = counted.unit if suffix == "_sum" else ""
                of_project.create_observable_up_down_counter(counted.name + suffix, [callback], unit, counted.text)
        else:
            of_project.create_observable_counter(counted.name, [partial(_counted, counted, None)], "", counted.text)
    for active in ACTIVE:
        of_project.create_observable_gauge(active.name, [partial(_active, active)], active.unit, active.text)
    collection = _Collection()
    for shared in SHARED:
        callback = partial(_shared, shared, collection)
        of_project.create_observable_gauge(shared.name, [callback], shared.unit, shared.text)


def _counted(metric: Metric[Counts], part: Part | None, _: CallbackOptions) -> list[Observation]:
    counts = read_counts()
    return list(_observations(metric, counts, part)) if counts else []


def _active(metric: Metric[meter.Activity], _: CallbackOptions) -> list[Observation]:
    return [
        observation
        for activity in meter.activities()
        for observation in _observations(metric, activity, None, executor=activity.executor)
    ]


def _shared(metric: Metric[Cluster], collection: "_Collection", _: CallbackOptions) -> list[Observation]:
    return list(_observations(metric, collection.for_metric(metric.short_name))) if meter.activities() else []


def _observations(
    metric: Metric[Source], source: Source, part: Part | None = None, **more: str
) -> Iterator[Observation]:
    for labels, value in metric.read(source):
        attributes = dict(zip(metric.labels, labels, strict=True)) | more
        if isinstance(value, Histogram):
            for extra, count in part(value) if part else ():
                yield Observation(count, attributes | extra)
        else:
            yield Observation(value, attributes)


class _Collection:
    """One collection of all metrics, which share what is read of the cluster: each of them takes it once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._cluster = UNKNOWN

    def for_metric(self, name: str) -> Cluster:
        """Return the cluster as this collection sees it."""
        if not self._taken or name in self._taken:
            self._taken = set()
            self._cluster = _read()
        self._taken.add(name)
        return self._cluster


def _read() -> Cluster:
    """Read the cluster; leave no connection behind in the reader's thread."""
    alias = settings.DATABASE
    was_open = connections[alias].connection is not None
    try:
        return read_cluster(alias)
    finally:
        if not was_open:
            connections[alias].close()
