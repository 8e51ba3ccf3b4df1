"""The metrics of one executor as families of samples: what its meter has counted, and what it does now."""

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from django_delayed_tasks.executor.meter import Histogram, Meter
from django_delayed_tasks.executor.process.probes import Activity
from django_delayed_tasks.handlers import find

PREFIX = "delayed_tasks_"


def of_meter(meter: Meter) -> Iterator[Metric]:
    """Yield what this process has counted since it started."""
    with meter.lock:
        yield _by_code("claimed", "Tasks claimed.", meter.claimed)
        settled = CounterMetricFamily(f"{PREFIX}settled", "Ends of runs, by outcome.", labels=["code", "outcome"])
        for (code, outcome), count in meter.settled.items():
            settled.add_metric([code, outcome.name.lower()], count)
        yield settled
        yield _by_code("failed", "Tasks that failed for good.", meter.failed)
        yield _by_code("reaped", "Tasks taken from dead executors.", meter.reaped)
        late = "Seconds from the time of a task to the start of its first attempt."
        yield _histograms("lateness_seconds", late, meter.lateness)
        yield _histograms("run_seconds", "Seconds that runs took.", meter.run_time)
        yield _histogram("claim_seconds", "Seconds that claims took.", meter.claim_time)
        yield _histogram("agenda_seconds", "Seconds that readings of the agenda took.", meter.agenda_time)


def of_activity(activity: Activity) -> Iterator[Metric]:
    """Yield what an executor does now."""
    yield GaugeMetricFamily(f"{PREFIX}threads", "Threads that run tasks.", activity.threads)
    yield GaugeMetricFamily(f"{PREFIX}threads_busy", "Threads that are running a task.", activity.busy)
    yield GaugeMetricFamily(f"{PREFIX}async_runs", "Runs on the event loop.", activity.awaited)
    yield GaugeMetricFamily(f"{PREFIX}unsettled", "Claims that are not settled.", activity.held)
    slots = GaugeMetricFamily(f"{PREFIX}slots", "What max_concurrent allows in the whole cluster.", labels=["code"])
    in_use = GaugeMetricFamily(f"{PREFIX}slots_in_use", "Claims of this executor that count for it.", labels=["code"])
    for code, count in Counter(activity.codes).items():
        handler = find(code)
        if handler and handler.max_concurrent:
            slots.add_metric([code], handler.max_concurrent)
            in_use.add_metric([code], count)
    yield from (slots, in_use)


def _by_code(name: str, text: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(PREFIX + name, text, labels=["code"])
    for code, count in counts.items():
        family.add_metric([code], count)
    return family


def _histograms(name: str, text: str, by_code: Mapping[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(PREFIX + name, text, labels=["code"])
    for code, histogram in by_code.items():
        family.add_metric([code], _buckets(histogram), histogram.total)
    return family


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(PREFIX + name, text, buckets=_buckets(histogram), sum_value=histogram.total)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*map(str, histogram.bounds), "+Inf"]
    total, buckets = 0, []
    for bound, count in zip(bounds, histogram.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
