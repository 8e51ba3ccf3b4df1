"""Connections that broke while idle: a holder may not query the database for hours."""

from collections.abc import Callable
from typing import TypeVar

from django.db import Error, connections

from django_delayed_tasks.store.sql import kept_connections

T = TypeVar("T")


def reconnecting(alias: str, work: Callable[[], T]) -> T:
    """Call ``work()``, and once more on a new connection if the present one turns out to be broken.

    ``work`` must be idempotent. Inside a transaction it is not repeated, since the earlier statements would be missing.

    Raises:
        Error: the error of the database or its driver.
    """
    connection = connections[alias]
    before = connection.connection
    is_free = before is None or connection.autocommit
    try:
        return work()
    except Error:
        if is_free and not connection.in_atomic_block and not connection.autocommit:
            connection.close()  # it broke at the end of a transaction that the work itself had opened
        # At the end of a transaction Django may have made a new connection already.
        elif not drop_broken(alias) and (before is None or connection.connection is before):
            raise
        return work()


def drop_broken(alias: str) -> bool:
    """Close this thread's connection if it no longer works and in no transaction; return whether there is none."""
    connection = connections[alias]
    if connection.connection is None:
        return True
    if not connection.autocommit:  # a transaction is open
        return False
    return kept_connections.discard_unusable(alias)
