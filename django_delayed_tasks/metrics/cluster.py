"""What the metrics of the whole cluster are read from: the database, with a few short queries."""

from collections.abc import Mapping
from typing import NamedTuple

from django.db.models import Count, Q

from django_delayed_tasks.models import Executor, Resource
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.resources.resources import RESERVED


class Cluster(NamedTuple):
    """The seconds for which each queue is overdue, the live executors, and by pool its resources and those leased."""

    overdue: Mapping[str, float]
    executors: int
    pools: Mapping[str, tuple[int, int]]


def read_cluster(alias: str) -> Cluster:
    """Read how late each queue is, the live executors, and the pools."""
    agenda = read_agenda(alias)
    overdue: dict[str, float] = {}
    for level in agenda.levels:
        seconds = (agenda.now - level.earliest).total_seconds()
        overdue[level.queue] = max(0.0, seconds, overdue.get(level.queue, 0.0))
    live = Executor.objects.using(alias).filter(alive=True, expires_at__gt=agenda.now).count()
    resources = Resource.objects.using(alias).filter(enabled=True).exclude(pool__startswith=RESERVED)
    busy = Count("id", filter=Q(busy_before__gt=agenda.now))
    rows = resources.order_by("pool").values_list("pool").annotate(total=Count("id"), busy=busy)
    return Cluster(overdue, live, {pool: (total, leased) for pool, total, leased in rows})
