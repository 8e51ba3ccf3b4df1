"""Paused queues: nothing of them is claimed. Executors read which they are together with the agenda."""

import json

from django.db import IntegrityError, connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from django_delayed_tasks.store.sql.tables import PAUSED_QUEUE
from django_delayed_tasks.store.sql.transactions import in_one_statement

_AGGREGATES = {
    # The names are the keys of an object, coalesced with a type that may be long: MariaDB silently truncates an array
    # at group_concat_max_len, and a UNION truncates a value whose declared length is no more than that.
    "mysql": "COALESCE(JSON_OBJECTAGG(queue, 1), CAST(NULL AS CHAR(16000000)))",
    "postgresql": "json_agg(queue)::text",
    "sqlite": "json_group_array(queue)",
}


def pause_queue(alias: str, queue: str) -> bool:
    """Pause the queue, so that nothing of it is claimed; return False if it is paused already."""
    dialect = dialect_of(connections[alias])
    insert = f"INSERT INTO {PAUSED_QUEUE} (queue, paused_at) VALUES (%s, {dialect.now})"

    def write(cursor: CursorWrapper) -> bool:
        if dialect.connection.vendor == "mysql":
            return _is_inserted(cursor, insert, queue)
        cursor.execute(f"{insert} ON CONFLICT (queue) DO NOTHING", [queue])
        return bool(cursor.rowcount)

    return in_one_statement(alias, write)


def _is_inserted(cursor: CursorWrapper, insert: str, queue: str) -> bool:
    """Insert on MariaDB and MySQL, where IGNORE would also hide that the connection's charset cannot pass the name."""
    try:
        cursor.execute(insert, [queue])
    except IntegrityError:  # on these databases, the caller's transaction remains usable
        return False
    return True


def resume_queue(alias: str, queue: str) -> bool:
    """Resume the queue, so that its tasks are claimed again; return False if it was not paused."""

    def write(cursor: CursorWrapper) -> bool:
        cursor.execute(f"DELETE FROM {PAUSED_QUEUE} WHERE queue = %s", [queue])
        return bool(cursor.rowcount)

    return in_one_statement(alias, write)


def paused_names(dialect: Dialect) -> str:
    """Return a scalar subquery for the names as JSON text, to be read together with something else."""
    return f"(SELECT {_AGGREGATES[dialect.connection.vendor]} FROM {PAUSED_QUEUE})"


def names_of(text: str | None) -> frozenset[str]:
    """Return the names that :func:`paused_names` wrote as JSON text."""
    return frozenset(json.loads(text)) if text else frozenset()
