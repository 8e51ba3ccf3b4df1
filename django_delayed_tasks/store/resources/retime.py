"""Leases that were taken or renewed while the database's clock was ahead, and that nothing has renewed since.

A holder that is alive renews its lease several times before it ends, and what it writes then is right.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db.models import Model, Q, QuerySet

from django_delayed_tasks.clock import SKEW
from django_delayed_tasks.models import Executor, Resource
from django_delayed_tasks.store.sql.transactions import in_one_write


def leases_ahead(alias: str, now: datetime, pools: Collection[str] | None = None) -> "QuerySet[Resource]":
    """Return the resources that such a lease keeps from being free, those of these pools; None stands for all pools."""
    is_ahead = Q(renewed_at__gt=now + SKEW) | Q(acquired_at__gt=now + SKEW)
    rows = Resource.objects.using(alias).filter(is_ahead, enabled=True, busy_before__gt=now)
    return rows if pools is None else rows.filter(pool__in=pools)


def executors_ahead(alias: str, now: datetime) -> "QuerySet[Executor]":
    """Return the executors whose last heartbeat lies in the future."""
    return Executor.objects.using(alias).filter(alive__in=[True], heartbeat_at__gt=now + SKEW)


def retime(alias: str, now: datetime) -> int:
    """Let each of these leases run from now on, for as long as it was given; return how many these were.

    Other executors then take the tasks of an executor that has died.
    """
    changed = 0
    for row in leases_ahead(alias, now):
        given_at = max(filter(None, (row.renewed_at, row.acquired_at)))
        right = {"busy_before": now + (row.busy_before - given_at)} | dict.fromkeys(("renewed_at", "acquired_at"), now)
        changed += _write(row, right)
    for executor in executors_ahead(alias, now):
        right = {"expires_at": now + (executor.expires_at - executor.heartbeat_at), "heartbeat_at": now}
        changed += _write(executor, right)
    return changed


def _write(row: Model, right: dict[str, Any]) -> int:
    """Write these values unless one of them has changed since the row was read, as by a renewal."""
    seen = {name: getattr(row, name) for name in right}
    rows: Any = type(row)._default_manager.using(row._state.db).filter(pk=row.pk, **seen)
    changed: int = in_one_write(str(row._state.db), lambda _: rows.update(**right))
    return changed
