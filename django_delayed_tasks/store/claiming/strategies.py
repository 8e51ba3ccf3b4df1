"""The claiming strategy for each database: the one that was measured to be faster on it."""

from collections.abc import Callable

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.store.claiming import compare_and_set, skip_locked, sole_writer
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.sql import galera

Strategy = Callable[[str, ClaimRequest], list[ClaimedTask]]
"""A function that claims due tasks and returns them; an empty list if none is due. May raise :class:`Outpaced`."""


def strategy_for(alias: str, name: str) -> Strategy:
    """Return the strategy of this name; "auto" is the one that was measured to be faster on this database.

    Raises:
        ValueError: the database does not support the strategy.
    """
    connection = connections[alias]
    if name == "auto" and connection.vendor == "sqlite":
        return sole_writer.claim
    if name == "auto":
        name = "skip_locked" if _locks_cheaply(connection) else "compare_and_set"
    if name == "compare_and_set":
        return compare_and_set.claim
    if not connection.features.has_select_for_update_skip_locked:
        raise ValueError(f"database {alias!r} has no SKIP LOCKED; use CLAIM = 'auto' or 'compare_and_set'")
    if galera.is_galera(connection):
        raise ValueError(
            f"database {alias!r} is a Galera cluster, whose nodes know nothing of each other's locks;"
            " use CLAIM = 'auto' or 'compare_and_set'"
        )
    return skip_locked.claim


def _locks_cheaply(connection: BaseDatabaseWrapper) -> bool:
    # No feature flag says what a locking read costs: on InnoDB, more than the rest of a claim (docs/decisions/0003).
    return connection.vendor == "postgresql"
