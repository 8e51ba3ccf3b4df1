"""The source of the metrics of the whole cluster: the database, with a few short queries."""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from django.db import Error
from django.db.models import Count, Q

from django_delayed_tasks.fields import RESERVED_POOLS
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.models import Executor, Resource
from django_delayed_tasks.stats.limits import waits_of
from django_delayed_tasks.stats.snapshot import Snapshot
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)
V = TypeVar("V")


class Cluster(NamedTuple):
    """The answers of the database.

    Attributes:
        is_known: False if the database cannot be read.
        overdue: by queue, the seconds for which it is overdue, without tasks that a limit or another task holds back.
        limited: by queue and code, the seconds for which the first task has waited for a limit.
        executors: how many executors are alive.
        pools: by pool, how many resources it has, and how many of them are leased.

    Of more than ``MAX_SERIES`` queues or pools, the last have one value, under the name ``OTHERS``. ``limited`` has at
    most as many values: of those that have waited longest.
    """

    is_known: bool
    overdue: Mapping[str, float]
    limited: Mapping[tuple[str, ...], float]
    executors: int
    pools: Mapping[str, tuple[int, int]]


MAX_SERIES: Final = 100
"""The most queues, and the most pools, that have values of their own: those of handlers first, then by name."""
OTHERS: Final = "others"
"""The name of the queues, or pools, that have none: the value is the largest one of the queues, or the pools' sum."""
UNKNOWN: Final = Cluster(False, {}, {}, 0, {})


def read_cluster(alias: str) -> Cluster:
    """Read how late each queue is, the live executors, and the pools; ``UNKNOWN`` if the database is away."""
    try:
        return _read(alias)
    except Error as error:
        logger.warning("the metrics of the cluster cannot be read: %s", error)
        return UNKNOWN


def _read(alias: str) -> Cluster:
    seen = Snapshot(alias)
    waits = waits_of(seen)
    overdue: dict[str, float] = {}
    for level in seen.agenda.levels:
        if level.queue not in seen.paused:
            first = waits.first(level)
            seconds = (seen.now - first).total_seconds() if first else 0.0
            overdue[level.queue] = max(0.0, seconds, overdue.get(level.queue, 0.0))
    handlers = get_task_handlers().values()
    overdue = _bounded(overdue, {handler.queue for handler in handlers}, max)
    limited: dict[tuple[str, ...], float] = {
        (one.queue, one.code): (seen.now - one.since).total_seconds() for one in reversed(waits.limited)
    }
    limited = dict(sorted(limited.items(), key=lambda item: -item[1])[:MAX_SERIES])
    live = Executor.objects.using(alias).filter(alive=True, expires_at__gt=seen.now).count()
    resources = Resource.objects.using(alias).filter(enabled=True).exclude(pool__startswith=RESERVED_POOLS)
    busy = Count("id", filter=Q(busy_before__gt=seen.now))
    rows = resources.order_by("pool").values_list("pool").annotate(total=Count("id"), busy=busy)
    sizes = {pool: (total, leased) for pool, total, leased in rows}
    pools = _bounded(sizes, {handler.pool for handler in handlers}, _sum)
    return Cluster(True, overdue, limited, live, pools)


def _bounded(values: Mapping[str, V], first: Container[str | None], joined: Callable[[Iterable[V]], V]) -> dict[str, V]:
    """Return at most ``MAX_SERIES`` of the values by their names, and one for the others."""
    names = sorted(values, key=lambda name: (name not in first, name))
    found = {name: values[name] for name in names[:MAX_SERIES]}
    if others := [values[name] for name in names[MAX_SERIES:]]:
        found[OTHERS] = joined([*others, *([found[OTHERS]] if OTHERS in found else [])])
    return found


def _sum(sizes: Iterable[tuple[int, int]]) -> tuple[int, int]:
    totals, leased = zip(*sizes, strict=True)
    return sum(totals), sum(leased)
