"""State that a run may leave on a connection of its thread, or in the thread itself, for the next run to meet."""

from asyncio import _set_running_loop
from collections.abc import Container

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.dialects.mysql import note_own_transaction


def watch(connection: BaseDatabaseWrapper, used: set[str]) -> None:
    """Add the alias of the connection to ``used`` whenever it is used, until :func:`unwatch`."""
    unwatch(connection)
    usual, alias = connection.ensure_connection, connection.alias

    def ensure_connection() -> None:  # which Django calls before each use
        used.add(alias)
        usual()

    connection.ensure_connection = ensure_connection  # type: ignore[method-assign]
    if connection.vendor == "mysql":
        connection.execute_wrappers.append(note_own_transaction)


def unwatch(connection: BaseDatabaseWrapper) -> None:
    """Let the connection be as it was before :func:`watch`."""
    vars(connection).pop("ensure_connection", None)
    if note_own_transaction in connection.execute_wrappers:
        connection.execute_wrappers.remove(note_own_transaction)


def forget_running_loop() -> None:
    """Forget the event loop that seems to run in this thread: with one, Django uses no connection there.

    A run leaves such a loop if it does not stop what it has started, as Playwright's ``sync_playwright().start()``.
    """
    _set_running_loop(None)


def is_left_open(connection: BaseDatabaseWrapper) -> bool:
    """Return whether there is a transaction outside of ``atomic()``, of which the next write would be a part."""
    if connection.connection is None or not connection.settings_dict["AUTOCOMMIT"]:
        return False
    return not connection.autocommit or _says(connection, "is_in_transaction")


def _says(connection: BaseDatabaseWrapper, question: str) -> bool:
    try:
        return bool(getattr(dialect_of(connection), question)())
    except Exception:  # a database that this package does not know, or a driver that cannot tell
        return False


def usual_wrappers(connection: BaseDatabaseWrapper) -> set[int]:
    """Return how many wrappers of statements a new connection may have; a receiver may add some as it is opened."""
    return {int(connection.vendor == "mysql")}


def is_in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Return whether a transaction was left open, in or outside of ``atomic()``."""
    return connection.in_atomic_block or is_left_open(connection)


def is_changed(connection: BaseDatabaseWrapper, usual: Container[int]) -> bool:
    """Return whether the connection differs from a new one in anything that the next run could meet."""
    return bool(
        connections[connection.alias] is not connection
        or connection.atomic_blocks
        or connection.savepoint_ids
        or connection.closed_in_transaction
        or connection.needs_rollback
        or connection.run_on_commit
        or connection.run_commit_hooks_on_set_autocommit_on
        or len(connection.execute_wrappers) not in usual
        or (connection.connection is not None and _says(connection, "is_closed"))
    )


def is_suspicious(connection: BaseDatabaseWrapper, usual: Container[int]) -> bool:
    """Return whether the connection may have changed although it was not used; costs next to nothing."""
    return (
        connection.errors_occurred
        or connection.force_debug_cursor
        or len(connection.execute_wrappers) not in usual
        or (connection.connection is None and connections[connection.alias] is not connection)
    )


def has_unread(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the connection is kept busy by rows that a run has not read to their end."""
    return connection.connection is not None and _says(connection, "has_unread")
