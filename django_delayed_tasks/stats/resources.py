"""Pools and mutexes: how many resources are leased, and who waits."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Q

from django_delayed_tasks.models import Resource, Waiter
from django_delayed_tasks.stats.figures import Figures
from django_delayed_tasks.stats.snapshot import Snapshot
from django_delayed_tasks.store.claiming.waiting import COUNTED
from django_delayed_tasks.store.resources.rate_tokens import KEY_STARTS, STARTS
from django_delayed_tasks.store.resources.resources import MUTEXES
from django_delayed_tasks.store.resources.slots import SLOTS

MAX_POOLS: Final = 100
"""Pools that are shown, and that the filter of the list offers: each is a look at the index."""
HIDDEN: Final = Q(pool__startswith=SLOTS) | Q(pool__startswith=STARTS) | Q(pool__startswith=KEY_STARTS)
"""The pools that implement handlers\' limits, which must not be changed by hand."""


@dataclass(frozen=True, slots=True)
class Pool(Figures):
    """One pool; its numbers are exact up to ``COUNTED``, and one more than that beyond. The mutexes are a pool, too."""

    name: str
    is_mutexes: bool
    busy: int
    free: int
    disabled: int
    waiters: int


def pool_names(alias: str) -> Iterator[str]:
    """Yield the names of the first pools, in order; each is found by one index lookup."""
    rows: Any = Resource.objects.using(alias).exclude(HIDDEN)
    names = rows.order_by("pool").values_list("pool", flat=True)
    last: str | None = ""
    for _number in range(MAX_POOLS):
        last = names.filter(pool__gt=last).first()
        if last is None:
            return
        yield last


def pools_of(seen: Snapshot) -> list[Pool]:
    """Return the pools, and the mutexes, that are not empty."""
    return [_pool(seen, name) for name in pool_names(seen.alias)]


def _pool(seen: Snapshot, name: str) -> Pool:
    rows: Any = Resource.objects.using(seen.alias).filter(pool=name).order_by()
    waiters: Any = Waiter.objects.using(seen.alias).filter(pool=name, expires_at__gt=seen.now).order_by()
    numbers = [
        some.values("pk")[: COUNTED + 1].count()
        for some in (
            rows.filter(enabled=True, busy_before__gt=seen.now),
            rows.filter(enabled=True, busy_before__lte=seen.now),
            rows.filter(enabled=False),
            waiters,
        )
    ]
    return Pool(name, name == MUTEXES, *numbers)
