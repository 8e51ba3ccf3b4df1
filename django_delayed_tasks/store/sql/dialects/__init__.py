"""Dialects: what differs between databases, as fragments of SQL. Each verb is written once, with these fragments."""

from django_delayed_tasks.store.sql.dialects.base import (
    CLAIM_INDEX,
    IN_LEVEL,
    SQL,
    Column,
    Dialect,
    LevelKey,
    dialect_of,
    is_supported,
)

__all__ = ["CLAIM_INDEX", "IN_LEVEL", "SQL", "Column", "Dialect", "LevelKey", "dialect_of", "is_supported"]
