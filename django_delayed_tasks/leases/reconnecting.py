"""Connections that broke while nobody used them: a holder may ask nothing of the database for hours."""

from collections.abc import Callable
from typing import TypeVar

from django.db import Error, connections

T = TypeVar("T")


def reconnecting(alias: str, work: Callable[[], T]) -> T:
    """``work()``; once more on a new connection if the one there was turns out to be broken.

    For work that may be done twice. Inside a transaction nothing is repeated: what came before would be missing.

    Raises:
        Error: what the database, or its driver, said of it.
    """
    connection = connections[alias]
    before = connection.connection
    is_free = before is None or connection.autocommit
    try:
        return work()
    except Error:
        if is_free and not connection.in_atomic_block and not connection.autocommit:
            connection.close()  # it broke at the very end of a transaction of the work's own
        # At the end of a transaction Django may have made a new connection already.
        elif not drop_broken(alias) and (before is None or connection.connection is before):
            raise
        return work()


def drop_broken(alias: str) -> bool:
    """Close this thread's connection if it is broken, and no transaction ends with it; whether there is none now."""
    connection = connections[alias]
    if connection.connection is None:
        return True
    if not connection.autocommit:  # as in every transaction, whoever began it
        return False
    connection.errors_occurred = False
    if connection.is_usable():
        return False
    connection.close()
    return True


def is_outage(alias: str) -> bool:
    """Whether this thread's connection is, or was, broken, or none can be had."""
    if drop_broken(alias):
        return True
    try:
        connections[alias].ensure_connection()
    except Error:
        return True
    return False
