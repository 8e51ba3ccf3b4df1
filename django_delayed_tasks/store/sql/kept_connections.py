"""Connections that this package's threads keep open from one task to the next.

They are outside Django's pools, and forked children drop them. After each call of a project's code, one that is not as
new is closed and replaced; all that judges a connection is in this file.
"""

import os
from asyncio import _set_running_loop
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from threading import get_ident
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import DataError, Error, IntegrityError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.store.sql.clusters import Cluster, cluster_of
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.support import forks
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

_kept: dict[int, list[BaseDatabaseWrapper]] = {}
"""By thread id: the connections that the thread keeps."""
_of_thread: "dict[int, OfThread]" = {}
"""By thread id: what this package's threads have of their connections."""
_of_parent: list[list[BaseDatabaseWrapper]] = []
losses = 0
"""The number of this process's connections that were found to be lost: when it grows, others may not work either."""


def keep() -> list[BaseDatabaseWrapper]:
    """Keep and return this thread's connections, open or not, until :func:`close`; they leave Django's pools.

    To be called by a thread that this package has started, between transactions, and again after databases were added.
    """
    found = _kept[get_ident()] = _connections()
    for connection in found:
        if _is_pooled(connection):
            connection.close()
            _leave_pool(connection)
    return found


def close() -> None:
    """Close this thread's connections, as the thread ends."""
    for connection in connections.all(initialized_only=True):
        close_one(connection)
    _kept.pop(get_ident(), None)


def close_one(connection: BaseDatabaseWrapper) -> None:
    """Close a connection, even one whose driver's object a handler has closed already: mysqlclient then raises."""
    with suppress(Exception):  # Django forgets the driver's object in any case
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


def _forget() -> None:
    """Drop the kept connections in a forked child: they belong to the threads of its parent.

    The thread that has forked opens new ones, even if it was in a transaction: that is the parent's, too.
    """
    for thread, found in _kept.items():
        for connection in found:
            _part_from(connection.connection)
            # The fork may be noticed late, in a thread of the child that has the id of one of the parent's.
            if thread == get_ident() and connections[connection.alias] is connection:
                _renew_in_child(connection)
        _of_parent.append(found)  # some drivers close a connection that is no longer referenced
    _kept.clear()
    _of_thread.clear()


def _part_from(connection: Any) -> None:
    # Not closed: that would end the session that the parent uses. What is sent through it later is discarded.
    with suppress(Exception):
        descriptor = connection.fileno()
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


forks.forget_in_child(_forget)


class OfThread:
    """The connections, open or not, of the thread that creates this object, which runs tasks of the database ``alias``.

    They are kept here because asking Django for them takes longer than a short run.

    Attributes:
        all: the connections.
        connection: the one to ``alias``.
        wrappers: how many wrappers of statements it has before calls of the project's code.
        losses: the number of lost connections in this process when these were last looked at.
    """

    def __init__(self, alias: str) -> None:
        self._prepare: Callable[[BaseDatabaseWrapper], None] = _prepare_nothing
        self.wrappers = 0
        self.all = keep()
        self.alias = alias
        self.connection = connections[alias]
        self.losses = losses

    def refresh(self, was_idle: bool) -> None:
        """Close those that have died while the thread ``was_idle``; those that do not work if others did not either."""
        seen = losses
        others_were_lost = self.losses != seen
        if others_were_lost or was_idle:
            look = discard_unusable if others_were_lost else note_if_lost  # else all would look because of each one
            for connection in connections.all(initialized_only=True):
                look(connection, Access.WRITE if others_were_lost and connection is self.connection else Access.READ)
            self.losses = seen

    def tidy(self, who: object = "a handler") -> None:
        """Close and replace the connections that are not as new after the run of ``who``, and no others.

        Django's own ``close_old_connections`` would close all of them under the default CONN_MAX_AGE of 0, so that
        each task would open new ones.
        """
        _set_running_loop(None)  # one that Playwright has left would keep Django from using connections here
        for connection in self.all:
            wrappers = self.wrappers if connection is self.connection else 0
            if connection.queries_log:  # with DEBUG; a web process forgets them at each request
                connection.queries_log.clear()
            if is_as_new(connection, wrappers):
                continue
            # One to another database, as a replica, need not write. None is asked through wrappers that a run has left.
            needed = Access.WRITE if connection is self.connection else Access.READ
            if connection.errors_occurred and len(connection.execute_wrappers) <= wrappers:
                note_if_lost(connection, needed)
            if not is_as_new(connection, wrappers):
                self._replace(connection)

    def end_transaction(self, connection: BaseDatabaseWrapper, who: object) -> None:
        """Replace a connection on which ``who`` has left a transaction open."""
        logger.error("%s left a transaction open on %r: what it wrote there is rolled back", who, connection.alias)
        self._replace(connection)

    def begin_in_one_statement(self) -> None:
        """Let this thread begin transactions with BEGIN: Django turns autocommit off and on again on MariaDB and MySQL.

        That is one round trip less for each transaction, but not on Galera. To be called by threads that give up a
        transaction after an error: after a deadlock, what is sent next is not part of a new one. With DEBUG, their
        statements are not recorded.
        """
        self._prepare = _begin_in_one_statement
        self._prepare(self.connection)

    def _replace(self, old: BaseDatabaseWrapper) -> None:
        """Close a connection, and put a new object in its place: what was done to the old one reaches no other run.

        Nor does what is still to come, as from a generator that is closed later.
        """
        _set_running_loop(None)  # with one, Django would not close it
        discard(old)
        new = _renew(old)
        self.all[self.all.index(old)] = new
        if old is self.connection:
            self.connection = new
            self._prepare(new)


def _prepare_nothing(connection: BaseDatabaseWrapper) -> None:
    pass


def own() -> OfThread | None:
    """Return the connections of this thread; None in a thread that is not this package's: its own are left alone."""
    return _of_thread.get(get_ident())


def lend() -> OfThread | None:
    """Return the same before calls of a project's code; note which wrappers of statements one was opened with."""
    if found := _of_thread.get(get_ident()):
        found.wrappers = len(found.connection.execute_wrappers)
    return found


def end_transactions(
    who: object, error: BaseException | None = None, but: BaseDatabaseWrapper | None = None
) -> str | None:
    """Replace this thread's connections, ``but`` for one, on which ``who`` has left a transaction open.

    All else is left as it is; after an ``error`` of a database, with which the call has ended, all are looked at later:
    Django itself forgets the errors of a transaction once that has been rolled back. Return the alias of one that was
    replaced, or None.
    """
    if error is not None and _is_of_database(error):
        for connection in connections.all(initialized_only=True):
            connection.errors_occurred = True
    if not (found := _of_thread.get(get_ident())):
        return None
    alias = None
    for connection in found.all:
        is_open = is_in_transaction(connection)
        if is_open is None:
            connection.errors_occurred = True  # so that it is looked at by :meth:`OfThread.tidy`
        elif is_open and connection is not but:
            found.end_transaction(connection, who)
            alias = connection.alias
    return alias


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


def _is_of_database(error: BaseException | None) -> bool:
    """Return whether a database has caused the error, which may be more than the refusal of some data."""
    for _ in range(20):  # an error may be its own cause
        if error is None or isinstance(error, Error):
            break
        error = error.__context__ if error.__cause__ is None else error.__cause__
    return isinstance(error, Error) and not is_refusal(error)


def is_refusal(error: Error) -> bool:
    """Return whether the database has refused some data, which says nothing about the connection."""
    return isinstance(error, DataError | IntegrityError)


def is_as_new(connection: BaseDatabaseWrapper, wrappers: int = 0) -> bool:
    """Return whether the next call can find nothing on a connection that another has left there.

    It may have been opened with ``wrappers`` of statements. The driver is not asked: that was done after each step, by
    :func:`end_transactions`.
    """
    return (connection.connection is None or connection.autocommit) and not (
        connection.in_atomic_block
        or connection.errors_occurred
        or connection.closed_in_transaction
        or connection.needs_rollback
        or connection.force_debug_cursor
        or connection.run_on_commit
        or connection.run_commit_hooks_on_set_autocommit_on
        or connection.savepoint_ids
        or len(connection.execute_wrappers) > wrappers
    )


def is_in_transaction(connection: BaseDatabaseWrapper) -> bool | None:
    """Return whether a transaction is open, in or outside of ``atomic()``, as Django and the driver tell.

    No statement is sent. None if the driver's session is closed, and Django has not noticed.
    """
    if connection.in_atomic_block:
        return True
    if connection.connection is None:
        return False
    if not connection.autocommit:
        return bool(connection.settings_dict["AUTOCOMMIT"])
    try:
        return dialect_of(connection).is_in_transaction()
    except Exception:  # a database that this package does not know, or a driver that cannot tell
        return False


class Access(IntEnum):
    """The access to its database that a connection gives."""

    NONE = 0
    READ = 1
    WRITE = 2


def access_to(connection: BaseDatabaseWrapper, up_to: Access = Access.WRITE) -> Access:
    """Return the access that a connection of this thread gives, which is opened if need be; ask for no more than given.

    All that may give one up after an error asks this. A server that was demoted in a failover answers, but its sessions
    can write no more.
    """
    if connection.connection is None and failure_to_open(connection.alias):
        return Access.NONE
    if is_in_transaction(connection) is not False:
        return Access.NONE
    if not connection.is_usable():
        return Access.NONE
    if up_to < Access.WRITE:
        return Access.READ
    try:
        return Access.WRITE if dialect_of(connection).accepts_writes() else Access.READ
    except NotImplementedError:  # another vendor, of a database that only handlers use
        return Access.WRITE
    except Error:  # a server that takes no writes may refuse the question
        return Access.READ if connection.is_usable() else Access.NONE


def discard_unusable(connection: BaseDatabaseWrapper, needed: Access = Access.WRITE) -> bool:
    """Close a connection of this thread that does not give the access ``needed``; return whether it did not."""
    connection.errors_occurred = False
    if connection.connection is None:
        return False
    with suppress(Exception):  # of a backend, or of a wrapper of statements
        if access_to(connection, needed) >= needed:
            return False
    discard(connection)
    return True


def note_if_lost(connection: BaseDatabaseWrapper, needed: Access = Access.WRITE, *, used: Any = None) -> None:
    """Do the same, and count a connection that is lost, so that all threads of this process look at theirs.

    The driver's object that was ``used`` is lost, too, if Django has closed it since, as it does when a rollback fails.
    """
    global losses
    if (used is not None and not is_current(connection.alias, used)) or discard_unusable(connection, needed):
        losses += 1


def discard(connection: BaseDatabaseWrapper) -> None:
    """Close a connection of this thread, whatever its state; the next use opens a new one."""
    # Within a transaction Django would keep the connection, even one that died at the end of the transaction. It would
    # forget the blocks when it connects again, which is after a durable block has asked for them.
    connection.in_atomic_block = connection.closed_in_transaction = connection.needs_rollback = False
    connection.atomic_blocks, connection.savepoint_ids = [], []
    with suppress(Exception):
        if connection.vendor == "sqlite":  # where one with an open cursor is closed later, with its transaction
            connection.connection.rollback()
        elif _is_pooled(connection):  # the pool would lend this session again
            connection.connection.close()
    close_one(connection)


def opened(alias: str) -> Any:
    """Open this thread's connection, or raise Error; return the driver's object."""
    connections[alias].ensure_connection()
    return connections[alias].connection


def is_current(alias: str, used: Any) -> bool:
    """Return whether the driver's object that this thread has ``used`` is still that of its connection.

    It is not if it was given up after an error, nor if it is None, since none could be opened.
    """
    return used is not None and connections[alias].connection is used


def failure_to_open(alias: str) -> Exception | None:
    """Open this thread's connection; return the error if it can have none now.

    A backend that asks for a password may have raised it, or a receiver of ``connection_created``.
    """
    try:
        opened(alias)
        connections[alias].queries_log.clear()  # with DEBUG
    except Exception as error:
        return error
    return None


def _begin_in_one_statement(connection: BaseDatabaseWrapper) -> None:
    def begin() -> None:
        with connection.wrap_database_errors:
            if cluster_of(connection) is Cluster.GALERA:  # where what follows BEGIN waits for no other node
                connection.connection.autocommit(False)
            else:
                connection.connection.begin()

    record_nothing(connection)
    if connection.vendor == "mysql":
        connection._start_transaction_under_autocommit = begin  # type: ignore[attr-defined]


def record_nothing(connection: BaseDatabaseWrapper) -> None:
    """Turn off the query log that DEBUG enables: in a thread that never ends it would grow."""
    connection.queries_log = deque(maxlen=0)


@contextmanager
def of_thread(alias: str) -> Iterator[OfThread]:
    """Prepare this thread's connections for a ``with`` block, and close them at its end.

    On SQLite every transaction of the one to ``alias`` takes the write lock at its beginning: one that reads first and
    writes later would fail at once if another connection wrote in between.
    """
    own = _of_thread[get_ident()] = OfThread(alias)
    connection = connections[alias]
    options = connection.settings_dict.get("OPTIONS", {})
    if connection.vendor == "sqlite" and options.get("transaction_mode") is None:
        options = {**options, "transaction_mode": "IMMEDIATE"}
        connection.settings_dict = {**connection.settings_dict, "OPTIONS": options}
    try:
        yield own
    finally:
        close()
        _of_thread.pop(get_ident(), None)
