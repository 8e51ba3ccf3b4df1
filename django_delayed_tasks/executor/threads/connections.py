"""Database connections of the executor's threads, kept healthy and open from run to run."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.store.sql import kept_connections

logger = logging.getLogger(__name__)

losses = 0
"""How often a connection of this process was found dead: when it grows, others may be dead too."""


def prepare(alias: str) -> None:
    """Make this thread's connection fit for the executor.

    On SQLite every transaction of a worker becomes a writer at its beginning: one that reads first and writes later
    fails at once if another wrote in between.
    """
    connection = connections[alias]
    if connection.vendor == "sqlite" and getattr(connection, "transaction_mode", "") is None:
        connection.transaction_mode = "IMMEDIATE"  # type: ignore[attr-defined]


class OfThread:
    """The connections of the thread that made this, open or not.

    Asking Django for them costs more than a short run does.
    """

    def __init__(self) -> None:
        self._names = 0
        self._all: list[BaseDatabaseWrapper] = []

    def tidy(self) -> None:
        """After a run: close what the handler left unusable, and nothing else.

        Django's own ``close_old_connections`` would close them all under the default CONN_MAX_AGE of 0: a new
        connection for each task.
        """
        if len(connections.settings) != self._names:  # a project may add databases while it runs
            self._names = len(connections.settings)
            self._all = kept_connections.keep()
        for connection in self._all:
            if connection.connection is not None:
                _tidy(connection)


def _tidy(connection: BaseDatabaseWrapper) -> None:
    if connection.in_atomic_block or _is_left_open(connection):
        logger.error("a handler left a transaction open on %r; it is rolled back", connection.alias)
        connection.in_atomic_block = connection.closed_in_transaction = False
        connection.close()
    elif connection.errors_occurred:
        discard_unusable(connection.alias)


def _is_left_open(connection: BaseDatabaseWrapper) -> bool:
    """Whether what is written next would be part of a transaction that nobody ends."""
    is_managed: bool = connection.settings_dict["AUTOCOMMIT"]
    return not connection.in_atomic_block and connection.autocommit != is_managed


def refresh() -> None:
    """Before a run, when connections may have died meanwhile: close those, so that the run opens new ones."""
    for connection in connections.all(initialized_only=True):
        discard_unusable(connection.alias)


def discard_unusable(alias: str) -> bool:
    """Close this thread's connection if it no longer works, so that the next use opens a new one; whether it did."""
    global losses
    connection = connections[alias]
    connection.errors_occurred = False
    if connection.connection is None or (not _is_left_open(connection) and connection.is_usable()):
        return False
    # Or a dead one that broke at the end of a transaction would be kept: Django closes nothing within one.
    connection.in_atomic_block = connection.closed_in_transaction = False
    connection.close()
    losses += 1
    return True


def opened(alias: str) -> Any:
    """This thread's connection as its driver has it, to be asked about by :func:`has_broken`.

    Raises:
        Error: the database cannot be reached.
    """
    connections[alias].ensure_connection()
    return connections[alias].connection


def has_broken(alias: str, used: Any) -> bool:
    """After an error: whether it was this connection that broke; the next use opens a new one.

    Where the rollback failed too, Django has closed it, and may have opened a new one.
    """
    global losses
    if connections[alias].connection is used:
        return discard_unusable(alias)
    losses += 1
    return True


def does_answer(alias: str) -> bool:
    """Whether the database itself answers on a connection of this thread now: a proxy before it may take any."""
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT 1")
            return cursor.fetchone() is not None
    except Error:
        return False


@contextmanager
def of_thread(alias: str) -> Iterator[None]:
    """This thread's connections: its own, prepared at the start, closed at the end."""
    kept_connections.keep()
    prepare(alias)
    try:
        yield
    finally:
        kept_connections.close()
