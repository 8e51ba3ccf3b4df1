"""Connections that this package's threads keep open from one task to the next.

They are outside Django's pools, broken ones are replaced, and forked children drop them.
"""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.store.sql import leftovers
from django_delayed_tasks.store.sql.dialects.mysql import note_own_transaction
from django_delayed_tasks.support import forks
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

_kept: dict[int, list[BaseDatabaseWrapper]] = {}
"""By thread id: the connections that the thread keeps."""
_of_parent: list[list[BaseDatabaseWrapper]] = []
losses = 0
"""How many connections of this process were found dead: when it grows, others may be dead too."""


def keep() -> list[BaseDatabaseWrapper]:
    """Keep and return this thread's connections, open or not, until :func:`close`; they leave Django's pools.

    To be called by a thread that this package has started, between transactions, and again after databases were added.
    """
    found = _kept[get_ident()] = _connections()
    for connection in found:
        if _is_pooled(connection):
            connection.close()
            _leave_pool(connection)
        _watch(connection)
    return found


def close() -> None:
    """Close this thread's connections, as the thread ends."""
    for connection in connections.all(initialized_only=True):
        close_one(connection)
    _kept.pop(get_ident(), None)


def close_one(connection: BaseDatabaseWrapper) -> None:
    """Close a connection, even one whose driver's object a handler has closed already: mysqlclient then raises."""
    with suppress(Error):  # Django forgets the driver's object in any case
        connection.close()


@contextmanager
def outside_of_pools() -> Iterator[None]:
    """Let this thread open connections outside Django's pools in the block; those already open are not changed."""
    closed = [connection for connection in _connections() if connection.connection is None]
    left = [(connection, connection.settings_dict) for connection in closed if _is_pooled(connection)]
    for connection, _ in left:
        _leave_pool(connection)
    try:
        yield
    finally:
        for connection, pooled in left:
            connection.close()
            connection.settings_dict = pooled


def _connections() -> list[BaseDatabaseWrapper]:
    found = []
    for alias in connections:
        with suppress(ImproperlyConfigured, ImportError):  # a driver that this machine lacks fails those who use it
            found.append(connections[alias])
    return found


def _is_pooled(connection: BaseDatabaseWrapper) -> bool:
    return bool(connection.settings_dict.get("OPTIONS", {}).get("pool"))


def _leave_pool(connection: BaseDatabaseWrapper) -> None:
    # A copy: the dict from the settings is shared with the connections of all other threads.
    options = {name: value for name, value in connection.settings_dict["OPTIONS"].items() if name != "pool"}
    connection.settings_dict = {**connection.settings_dict, "OPTIONS": options}


def _watch(connection: BaseDatabaseWrapper) -> None:
    if connection.vendor == "mysql" and note_own_transaction not in connection.execute_wrappers:
        connection.execute_wrappers.append(note_own_transaction)


def _forget() -> None:
    """Drop the kept connections in a forked child: they belong to the threads of its parent.

    The thread that has forked opens new ones, even if it was in a transaction: that is the parent's, too.
    """
    for thread, found in _kept.items():
        for connection in found:
            _part_from(connection.connection)
            if thread == get_ident():
                _renew_in_child(connection)
        _of_parent.append(found)  # some drivers close a connection that is no longer referenced
    _kept.clear()


def _part_from(connection: Any) -> None:
    # Not closed: that would end the session that the parent uses. What is sent through it later is discarded.
    with suppress(Exception):
        descriptor = connection.fileno()
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


forks.forget_in_child(_forget)


class OfThread:
    """The connections, open or not, of the thread that creates this object.

    They are kept here because asking Django for them takes longer than a short run.
    """

    def __init__(self) -> None:
        self._names = len(connections.settings)
        self._all = keep()

    def tidy(self, who: object = "a handler") -> None:
        """Replace the connections that the run of ``who`` did not leave like new ones, and no others.

        Django's own ``close_old_connections`` would close all of them under the default CONN_MAX_AGE of 0, so that
        each task would open new ones.
        """
        leftovers.forget_event_loop()
        if len(connections.settings) != self._names:  # a project may add databases at runtime
            self._names = len(connections.settings)
            self._all = keep()
        for connection in self._all:
            _tidy(connection, who)


def tidy_after(who: object) -> None:
    """Do as :meth:`OfThread.tidy` with the connections that this thread keeps, if it is one of this package's."""
    if found := _kept.get(get_ident()):
        leftovers.forget_event_loop()
        for connection in found:
            _tidy(connection, who)


def _tidy(connection: BaseDatabaseWrapper, who: object) -> None:
    connection.queries_log.clear()  # with DEBUG, a web process does so for each request
    connection.force_debug_cursor = False
    if leftovers.is_in_transaction(connection):
        logger.error("%s left a transaction open on %r; it is rolled back", who, connection.alias)
        _replace(connection)
    elif leftovers.is_changed(connection):
        _replace(connection)
    elif connection.errors_occurred:
        discard_unusable(connection.alias)


def _replace(connection: BaseDatabaseWrapper) -> None:
    """Close a connection, and put a new object in its place: what was done to the old one reaches no other run.

    Nor does what is still to come, as from a generator that is closed later.
    """
    _close(connection)
    _close(connections[connection.alias])  # which a handler may have put in its place
    new, found = _renew(connection), _kept[get_ident()]
    _watch(new)
    found[found.index(connection)] = new
    if connection.queries_log.maxlen == 0:
        begin_in_one_statement(connection.alias)
    if leftovers.is_wrapped(connection):
        with suppress(Error):
            leftovers.note_usual_wrappers(new)


def _renew(connection: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    del connections[connection.alias]
    new = connections[connection.alias]
    new.settings_dict = connection.settings_dict  # which may be outside of a pool
    return new


def _renew_in_child(connection: BaseDatabaseWrapper) -> None:
    new = _renew(connection)
    if connection.vendor == "sqlite" and connection.in_atomic_block:
        # At the end of the block Django would connect, and wait for locks of SQLite that threads of the parent have.
        new.in_atomic_block = new.closed_in_transaction = True
        new.atomic_blocks, new.savepoint_ids = connection.atomic_blocks, connection.savepoint_ids


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
    if connection.connection is None or (not leftovers.is_left_open(connection) and connection.is_usable()):
        return False
    _close(connection)
    losses += 1
    return True


def _close(connection: BaseDatabaseWrapper) -> None:
    # Within a transaction Django would keep the connection, even one that died at the end of the transaction. It would
    # forget the blocks when it connects again, which is after a durable block has asked for them.
    connection.in_atomic_block = connection.closed_in_transaction = connection.needs_rollback = False
    connection.atomic_blocks, connection.savepoint_ids = [], []
    if connection.vendor == "sqlite":  # where a connection with an open cursor is closed later, with its transaction
        with suppress(Exception):
            connection.connection.rollback()
    close_one(connection)


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


def begin_in_one_statement(alias: str) -> None:
    """Let this thread begin transactions with BEGIN: Django turns autocommit off and on again on MariaDB and MySQL.

    That is one round trip less for each transaction. To be called by threads that give up a transaction after an error:
    after a deadlock, what is sent next is not part of a new one. With DEBUG, their statements are not recorded.
    """
    record_nothing(alias)
    connection = connections[alias]

    def begin() -> None:
        with connection.wrap_database_errors:
            connection.connection.begin()

    if connection.vendor == "mysql":
        connection._start_transaction_under_autocommit = begin  # type: ignore[attr-defined]


def record_nothing(alias: str) -> None:
    """Let this thread's connection not remember its statements, as it would with DEBUG, in a thread that never ends."""
    connections[alias].queries_log = deque(maxlen=0)


@contextmanager
def of_thread(alias: str) -> Iterator[OfThread]:
    """Prepare this thread's connections for a ``with`` block, and close them at its end.

    On SQLite every transaction of the one to ``alias`` takes the write lock at its beginning: one that reads first and
    writes later would fail at once if another connection wrote in between.
    """
    own = OfThread()
    connection = connections[alias]
    options = connection.settings_dict.get("OPTIONS", {})
    if connection.vendor == "sqlite" and options.get("transaction_mode") is None:
        options = {**options, "transaction_mode": "IMMEDIATE"}
        connection.settings_dict = {**connection.settings_dict, "OPTIONS": options}
    try:
        yield own
    finally:
        close()
