"""Dialects: what differs between databases, as fragments of SQL. Each verb is written once, with these fragments."""

from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.store.sql.dialects.base import Column, Dialect
from django_delayed_tasks.store.sql.dialects.mysql import MySQL
from django_delayed_tasks.store.sql.dialects.postgres import PostgreSQL
from django_delayed_tasks.store.sql.dialects.sqlite import SQLite

__all__ = ["Column", "Dialect", "dialect_of"]

_DIALECTS: dict[str, type[Dialect]] = {"mysql": MySQL, "postgresql": PostgreSQL, "sqlite": SQLite}


def dialect_of(connection: BaseDatabaseWrapper) -> Dialect:
    """Return the dialect of this connection's server.

    Raises:
        NotImplementedError: the database vendor is not supported.
    """
    try:
        return _DIALECTS[connection.vendor](connection)
    except KeyError:
        raise NotImplementedError(f"database vendor {connection.vendor!r} is not supported") from None
