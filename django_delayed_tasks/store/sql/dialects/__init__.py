"""Dialects: what differs between databases, as fragments of SQL. Each verb is written once, with these fragments."""

from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.store.sql.dialects.base import Column, Dialect
from django_delayed_tasks.store.sql.dialects.mysql import MySQL
from django_delayed_tasks.store.sql.dialects.postgres import PostgreSQL
from django_delayed_tasks.store.sql.dialects.sqlite import SQLite

__all__ = ["Column", "Dialect", "dialect_of"]

_DIALECTS: dict[str, type[Dialect]] = {"mysql": MySQL, "postgresql": PostgreSQL, "sqlite": SQLite}


_KEPT_AS = "_ddt_dialect"
"""The attribute of a connection that keeps its dialect."""


def dialect_of(connection: BaseDatabaseWrapper) -> Dialect:
    """Return the dialect of this connection's server; it lives as long as the connection's object.

    Raises:
        NotImplementedError: the database vendor is not supported.
    """
    kept: Dialect | None = getattr(connection, _KEPT_AS, None)
    if kept is not None:
        return kept
    try:
        dialect = _DIALECTS[connection.vendor](connection)
    except KeyError:
        raise NotImplementedError(f"database vendor {connection.vendor!r} is not supported") from None
    setattr(connection, _KEPT_AS, dialect)
    return dialect
