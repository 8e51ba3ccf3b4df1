"""Dialects: what differs between databases, as fragments of SQL. Each verb is written once, with these fragments."""

from django_delayed_tasks.store.sql.dialects.base import Column, Dialect, dialect_of

__all__ = ["Column", "Dialect", "dialect_of"]
