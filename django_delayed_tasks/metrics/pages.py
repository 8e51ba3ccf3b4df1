"""The text of metrics that Prometheus reads: of one executor, or of all executors of a supervisor."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from django_delayed_tasks.executor import meter
from django_delayed_tasks.executor.process.probes import Activity
from django_delayed_tasks.metrics.cluster import of_cluster
from django_delayed_tasks.metrics.families import of_activity, of_meter

KIND = CONTENT_TYPE_PLAIN_0_0_4


class _Collected:
    """Stands in for a registry, which the text is generated from."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _text(families: Iterable[Metric]) -> bytes:
    return generate_latest(_Collected(families))


class Prometheus:
    """Makes the text of metrics for Prometheus; ``alias`` is the tasks' database."""

    kind = KIND

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def of_executor(self, activity: Activity) -> bytes:
        """Return the metrics of one executor."""
        counts = meter.current()
        return _text([*(of_meter(counts) if counts else ()), *of_activity(activity)])

    def merged(self, pages: Mapping[str, bytes]) -> bytes:
        """Return one page with the samples of all executors, told apart by the label ``executor``."""
        return _text(_merged(pages))

    def with_cluster(self, page: bytes) -> bytes:
        """Return the page, and the metrics of the whole cluster after it."""
        return page + _text(of_cluster(self._alias))


def of_database(alias: str) -> bytes:
    """Return the metrics of the whole cluster, and what this process has counted, if it has an executor."""
    counts = meter.current()
    return _text([*(of_meter(counts) if counts else ()), *of_cluster(alias)])


def _merged(pages: Mapping[str, bytes]) -> Iterator[Metric]:
    families: dict[str, Metric] = {}
    for name, page in pages.items():
        for found in text_string_to_metric_families(page.decode()):
            family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
            for sample in found.samples:
                family.samples.append(sample._replace(labels=sample.labels | {"executor": name}))
    yield from families.values()
