"""Connections that threads of this package keep for long: outside of Django's pools, and not for forked children."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.support import forks

_kept: dict[int, list[BaseDatabaseWrapper]] = {}
"""By thread."""
_of_parent: list[list[BaseDatabaseWrapper]] = []


def keep() -> list[BaseDatabaseWrapper]:
    """The connections of this thread, open or not, which are its own until :func:`close`: for a thread that this
    package starts, between transactions. To be called again when databases were added.
    """
    found = _kept[get_ident()] = list(_connections())
    for connection in found:
        if _is_pooled(connection):
            connection.close()
            _leave_pool(connection)
    return found


def close() -> None:
    """This thread ends."""
    connections.close_all()
    _kept.pop(get_ident(), None)


@contextmanager
def outside_of_pools() -> Iterator[None]:
    """Inside, this thread opens its connections outside of pools. Those that are open already stay what they are."""
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
    # A dict of its own: that of the settings is shared with the connections of all other threads.
    options = {name: value for name, value in connection.settings_dict["OPTIONS"].items() if name != "pool"}
    connection.settings_dict = {**connection.settings_dict, "OPTIONS": options}


def _forget() -> None:
    """In a forked child: the connections of its parent's threads are the parent's."""
    for thread, found in _kept.items():
        if thread != get_ident():  # a thread that forks is responsible for its own
            for connection in found:
                _part_from(connection.connection)
            _of_parent.append(found)  # kept, or some drivers would close them
    _kept.clear()


def _part_from(connection: Any) -> None:
    # Not closed: that would end the session which the parent uses. Whatever is said through it later goes nowhere.
    with suppress(Exception):
        descriptor = connection.fileno()
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


forks.forget_in_child(_forget)
