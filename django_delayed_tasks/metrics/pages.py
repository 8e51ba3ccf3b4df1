"""The text of metrics that Prometheus reads: of one executor, or of all executors of a supervisor."""

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from django_delayed_tasks.executor.meter import Activity, Histogram
from django_delayed_tasks.metrics import definitions
from django_delayed_tasks.metrics.cluster import read_cluster
from django_delayed_tasks.metrics.definitions import ACTIVE, COUNTED, SHARED, Kind, Source, read_counts

KIND = CONTENT_TYPE_PLAIN_0_0_4


class _SampleRegistry:
    """Stands in for a registry, which the text is generated from."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _text(families: Iterable[Metric]) -> bytes:
    return generate_latest(_SampleRegistry(families))


class Prometheus:
    """Makes the text of metrics for Prometheus; ``alias`` is the tasks' database."""

    kind = KIND

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def of_executor(self, activity: Activity) -> bytes:
        """Return the metrics of one executor."""
        return _text([*_counted(), *_families(ACTIVE, activity)])

    def merged(self, pages: Mapping[str, bytes]) -> bytes:
        """Return one page with the samples of all executors, told apart by the label ``executor``."""
        return _text(_merged(pages))

    def with_cluster(self, page: bytes) -> bytes:
        """Return the page, and the metrics of the whole cluster after it."""
        return page + _text(_families(SHARED, read_cluster(self._alias)))


def of_database(alias: str) -> bytes:
    """Return the metrics of the whole cluster, and what this process has counted, if it has an executor."""
    return _text([*_counted(), *_families(SHARED, read_cluster(alias))])


def _counted() -> list[Metric]:
    counts = read_counts()
    return _families(COUNTED, counts) if counts else []


def _families(metrics: Iterable[definitions.Metric[Source]], source: Source) -> list[Metric]:
    return [_family(metric, source) for metric in metrics]


def _family(metric: definitions.Metric[Source], source: Source) -> Metric:
    kinds = {
        Kind.COUNTER: CounterMetricFamily,
        Kind.GAUGE: GaugeMetricFamily,
        Kind.HISTOGRAM: HistogramMetricFamily,
    }
    family = kinds[metric.kind](metric.name, metric.text, labels=metric.labels)
    for names, value in metric.read(source):
        labels = list(names)
        if isinstance(value, Histogram):
            family.add_metric(labels, value.cumulative(), value.total)
        else:
            family.add_metric(labels, value)
    return cast(Metric, family)


def _merged(pages: Mapping[str, bytes]) -> Iterator[Metric]:
    families: dict[str, Metric] = {}
    for name, page in pages.items():
        for found in text_string_to_metric_families(page.decode()):
            family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
            for sample in found.samples:
                family.samples.append(sample._replace(labels=sample.labels | {"executor": name}))
    yield from families.values()
