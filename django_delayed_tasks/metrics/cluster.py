"""What the metrics of the whole cluster are read from: the database, with a few short queries."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from django.db import Error
from django.db.models import Count, Q

from django_delayed_tasks.models import Executor, Resource
from django_delayed_tasks.stats.limits import waits_of
from django_delayed_tasks.stats.look import look
from django_delayed_tasks.store.resources.resources import RESERVED
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


class Cluster(NamedTuple):
    """What the database says.

    Attributes:
        is_known: False if the database cannot be read.
        overdue: by queue, the seconds for which it is overdue; tasks that wait for a limit are left out.
        limited: by queue and code, the seconds for which the first task has waited for a limit.
        executors: how many executors are alive.
        pools: by pool, how many resources it has, and how many of them are leased.
    """

    is_known: bool
    overdue: Mapping[str, float]
    limited: Mapping[tuple[str, ...], float]
    executors: int
    pools: Mapping[str, tuple[int, int]]


UNKNOWN: Final = Cluster(False, {}, {}, 0, {})


def read_cluster(alias: str) -> Cluster:
    """Read how late each queue is, the live executors, and the pools; ``UNKNOWN`` if the database is away."""
    try:
        return _read(alias)
    except Error as error:
        logger.warning("the metrics of the cluster cannot be read: %s", error)
        return UNKNOWN


def _read(alias: str) -> Cluster:
    seen = look(alias)
    waits = waits_of(seen)
    overdue: dict[str, float] = {}
    for level in seen.agenda.levels:
        if level.queue not in seen.paused:
            seconds = 0.0 if level in waits.levels else (seen.now - level.earliest).total_seconds()
            overdue[level.queue] = max(0.0, seconds, overdue.get(level.queue, 0.0))
    limited: dict[tuple[str, ...], float] = {
        (one.queue, one.code): (seen.now - one.since).total_seconds() for one in reversed(waits.limited)
    }
    live = Executor.objects.using(alias).filter(alive=True, expires_at__gt=seen.now).count()
    resources = Resource.objects.using(alias).filter(enabled=True).exclude(pool__startswith=RESERVED)
    busy = Count("id", filter=Q(busy_before__gt=seen.now))
    rows = resources.order_by("pool").values_list("pool").annotate(total=Count("id"), busy=busy)
    return Cluster(True, overdue, limited, live, {pool: (total, leased) for pool, total, leased in rows})
