"""Leases: a mutex or a resource of a pool, which one holder at a time has in the whole cluster."""

from django_delayed_tasks.exceptions import LeaseLost, ResourceUnavailable, UnknownPool
from django_delayed_tasks.leases.lease import Lease, MutexLease
from django_delayed_tasks.leases.mutex import Mutex, mutex
from django_delayed_tasks.leases.pool import LeasedResource, Pool

__all__ = [
    "Lease",
    "LeaseLost",
    "LeasedResource",
    "Mutex",
    "MutexLease",
    "Pool",
    "ResourceUnavailable",
    "UnknownPool",
    "mutex",
]
