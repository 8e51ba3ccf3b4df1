"""The database connections of the executor's threads, kept healthy and open from run to run."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.store.sql import kept_connections

logger = logging.getLogger(__name__)

losses = 0
"""How many connections of this process were found dead: when it grows, others may be dead too."""


def prepare(alias: str) -> None:
    """Prepare this thread's connection for the executor.

    On SQLite every transaction takes the write lock at its beginning: one that reads first and writes later would fail
    at once if another connection wrote in between.
    """
    connection = connections[alias]
    if connection.vendor == "sqlite" and getattr(connection, "transaction_mode", "") is None:
        connection.transaction_mode = "IMMEDIATE"  # type: ignore[attr-defined]


class OfThread:
    """The connections, open or not, of the thread that creates this object.

    They are kept here because asking Django for them takes longer than a short run.
    """

    def __init__(self) -> None:
        self._names = 0
        self._all: list[BaseDatabaseWrapper] = []

    def tidy(self) -> None:
        """Close the connections that a run left unusable, and no others.

        Django's own ``close_old_connections`` would close all of them under the default CONN_MAX_AGE of 0, so that
        each task would open new ones.
        """
        if len(connections.settings) != self._names:  # a project may add databases at runtime
            self._names = len(connections.settings)
            self._all = kept_connections.keep()
        for connection in self._all:
            if connection.connection is not None:
                _tidy(connection)


def _tidy(connection: BaseDatabaseWrapper) -> None:
    if connection.in_atomic_block or _is_left_open(connection):
        logger.error("a handler left a transaction open on %r; it is rolled back", connection.alias)
        _close(connection)
    elif connection.errors_occurred:
        discard_unusable(connection.alias)


def _is_left_open(connection: BaseDatabaseWrapper) -> bool:
    """Return whether autocommit was left off: the next write would be part of a transaction that never ends."""
    is_managed: bool = connection.settings_dict["AUTOCOMMIT"]
    return not connection.in_atomic_block and connection.autocommit != is_managed


def refresh() -> None:
    """Close this thread's connections that have died since they were used, so that the next run opens new ones."""
    for connection in connections.all(initialized_only=True):
        discard_unusable(connection.alias)


def discard_unusable(alias: str) -> bool:
    """Close this thread's connection if it no longer works; return whether it was closed.

    The next use opens another one. A connection that is not open is left alone.
    """
    global losses
    connection = connections[alias]
    connection.errors_occurred = False
    if connection.connection is None or (not _is_left_open(connection) and connection.is_usable()):
        return False
    _close(connection)
    losses += 1
    return True


def _close(connection: BaseDatabaseWrapper) -> None:
    # Within a transaction Django would keep the connection, even one that died at the end of the transaction.
    connection.in_atomic_block = connection.closed_in_transaction = False
    kept_connections.close_one(connection)


def opened(alias: str) -> Any:
    """Open this thread's connection and return the driver's object, to be passed to :func:`has_broken`.

    Raises:
        Error: the database cannot be reached.
    """
    connections[alias].ensure_connection()
    return connections[alias].connection


def has_broken(alias: str, used: Any) -> bool:
    """Return, after an error, whether the connection ``used`` has broken; the next use opens a new one.

    If the rollback failed too, Django has closed the connection and may have opened a new one.
    """
    global losses
    if connections[alias].connection is used:
        return discard_unusable(alias)
    losses += 1
    return True


def does_answer(alias: str) -> bool:
    """Return whether the database answers a query of this thread now; a proxy would accept a mere connection."""
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT 1")
            return cursor.fetchone() is not None
    except Error:
        return False


@contextmanager
def of_thread(alias: str) -> Iterator[None]:
    """Prepare this thread's connections for a ``with`` block, and close them at its end."""
    kept_connections.keep()
    prepare(alias)
    try:
        yield
    finally:
        kept_connections.close()
