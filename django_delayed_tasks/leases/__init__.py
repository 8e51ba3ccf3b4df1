"""What one at a time may hold in the whole cluster: a mutex, a resource of a pool."""

from django_delayed_tasks.exceptions import LeaseLost, ResourceUnavailable, UnknownPool
from django_delayed_tasks.leases.lease import Lease
from django_delayed_tasks.leases.mutex import Mutex, MutexLease, mutex
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
