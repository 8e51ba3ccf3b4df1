"""Metrics of the whole cluster, which only the database knows; a few short queries for each scrape."""

from collections.abc import Iterator

from django.db.models import Count, Q
from prometheus_client.core import GaugeMetricFamily, Metric

from django_delayed_tasks.metrics.families import PREFIX
from django_delayed_tasks.models import Executor, Resource
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.resources.resources import RESERVED


def of_cluster(alias: str) -> Iterator[Metric]:
    """Yield how late each queue is, the live executors, and the pools."""
    agenda = read_agenda(alias)
    overdue = GaugeMetricFamily(
        f"{PREFIX}overdue_seconds",
        "Seconds for which the first due task of the queue has waited; paused queues are left out.",
        labels=["queue"],
    )
    late: dict[str, float] = {}
    for level in agenda.levels:
        seconds = (agenda.now - level.earliest).total_seconds()
        late[level.queue] = max(0.0, seconds, late.get(level.queue, 0.0))
    for queue, seconds in late.items():
        overdue.add_metric([queue], seconds)
    yield overdue
    live = Executor.objects.using(alias).filter(alive=True, expires_at__gt=agenda.now).count()
    yield GaugeMetricFamily(f"{PREFIX}executors", "Live executors.", live)
    size = GaugeMetricFamily(f"{PREFIX}pool_size", "Enabled resources of the pool.", labels=["pool"])
    in_use = GaugeMetricFamily(f"{PREFIX}pool_in_use", "Resources of the pool that are leased.", labels=["pool"])
    resources = Resource.objects.using(alias).filter(enabled=True).exclude(pool__startswith=RESERVED)
    busy = Count("id", filter=Q(busy_before__gt=agenda.now))
    for pool, total, leased in resources.order_by("pool").values_list("pool").annotate(total=Count("id"), busy=busy):
        size.add_metric([pool], total)
        in_use.add_metric([pool], leased)
    yield from (size, in_use)
