"""Connections that this package's threads keep open: they are outside Django's pools, and forked children drop them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.support import forks

_kept: dict[int, list[BaseDatabaseWrapper]] = {}
"""By thread id: the connections that the thread keeps."""
_of_parent: list[list[BaseDatabaseWrapper]] = []


def keep() -> list[BaseDatabaseWrapper]:
    """Keep and return this thread's connections, open or not, until :func:`close`; they leave Django's pools.

    To be called by a thread that this package has started, between transactions, and again after databases were added.
    """
    found = _kept[get_ident()] = list(_connections())
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


def _connections() -> Iterator[BaseDatabaseWrapper]:
    for alias in connections:
        with suppress(ImproperlyConfigured, ImportError):  # a driver that this machine lacks fails those who use it
            yield connections[alias]


def _is_pooled(connection: BaseDatabaseWrapper) -> bool:
    return bool(connection.settings_dict.get("OPTIONS", {}).get("pool"))


def _leave_pool(connection: BaseDatabaseWrapper) -> None:
    # A copy: the dict from the settings is shared with the connections of all other threads.
    options = {name: value for name, value in connection.settings_dict["OPTIONS"].items() if name != "pool"}
    connection.settings_dict = {**connection.settings_dict, "OPTIONS": options}


def _forget() -> None:
    """Drop the kept connections in a forked child: they belong to the threads of its parent."""
    for thread, found in _kept.items():
        if thread != get_ident():  # a thread that forks is responsible for its own connections
            for connection in found:
                _part_from(connection.connection)
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
