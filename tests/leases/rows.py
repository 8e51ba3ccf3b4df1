"""Resources as the tests need them."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.leases import Lease
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.resources import line, resources
from django_delayed_tasks.store.resources.resources import Grant, WantedResource
from tests.store.verbs import ALIAS, NOW

POOL = "proxies"
TTL = timedelta(seconds=60)


def wanted(name: str = "") -> WantedResource:
    return WantedResource(POOL, name)


def add(*names: str) -> None:
    for name in names:
        resources.add(ALIAS, wanted(name), {"address": name})


def row(name: str = "a") -> Resource:
    return Resource.objects.get(pool=POOL, name=name)


def take(name: str = "a", holder: str = "me") -> Grant | None:
    """The resource of that name, if it is free."""
    free = line.queue_view(ALIAS, wanted(name)).free
    return resources.take(ALIAS, free[0], holder, TTL) if free else None


def taken(name: str = "a", holder: str = "me") -> Grant:
    grant = take(name, holder)
    assert grant is not None
    return grant


def free_names() -> list[str]:
    """Return the names of the free resources, in the order in which they would be given."""
    names = dict(Resource.objects.values_list("pk", "name"))
    return [names[pk] for pk, _ in line.queue_view(ALIAS, wanted()).free]


@contextmanager
def later(seconds: float) -> Iterator[None]:
    """Every clock shows NOW plus ``seconds``."""
    with clock.frozen_at(NOW + timedelta(seconds=seconds)):
        yield


def make_due(lease: Lease) -> None:
    """Have the lease renewed now."""
    with renewer._changed:
        renewer._due[lease] = 0
        renewer._changed.notify_all()


def force(lease: Lease) -> None:
    """End the lease as an administrator does in the admin."""
    assert resources.release_by_force(ALIAS, [(lease.grant.id, lease.token)])
