"""MariaDB Galera: a cluster of nodes, each of which may be a moment behind the others (docs/decisions/0005).

A node shows what the cluster has committed a little later than the node that committed it. Writes are safe all the
same: conflicting ones are refused at COMMIT. But "no such row" may only mean "not here yet", so a statement that
decides whether a claim or a lease is held first waits until its node has caught up (``wsrep_sync_wait``).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

NOT_READY = 1047
"""The error of a node that is not, or not yet, part of the primary component; it has not executed the statement."""
CURRENT = 1 | 2 | 4
"""The bits of wsrep_sync_wait: wait before reads, before UPDATE and DELETE, before INSERT."""
_READING_OR_WRITING = ("SELECT", "(SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
"""The statements that wait; SAVEPOINT, for example, has nothing to wait for."""
_WAITING = f"SET STATEMENT wsrep_sync_wait = {CURRENT} FOR "

_known: dict[tuple[str, ...], bool] = {}


def is_galera(connection: BaseDatabaseWrapper) -> bool:
    """Return whether this connection's server is a node of a Galera cluster; asks each server of each alias once."""
    if connection.vendor != "mysql":
        return False
    settings = connection.settings_dict
    server = (connection.alias, str(settings["HOST"]), str(settings["PORT"]))
    if server not in _known:
        _known[server] = _ask(connection)
    return _known[server]


def _ask(connection: BaseDatabaseWrapper) -> bool:
    connection.ensure_connection()
    with connection.wrap_database_errors, connection.connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
        row = cursor.fetchone()
    return bool(row) and row[1] == "ON"


@contextmanager
def caught_up(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Make the first statement in the block wait until this node shows what the cluster has committed.

    Only a MariaDB Galera node waits. The statement must be the first of its transaction: later ones do not wait.
    """
    if connection.in_atomic_block or not (is_galera(connection) and connection.mysql_is_mariadb):  # type: ignore[attr-defined]
        yield
        return
    prefix = _WAITING

    def wait(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        nonlocal prefix
        if sql.startswith(_READING_OR_WRITING):
            sql, prefix = prefix + sql, ""
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wait):
        yield


def catch_up(alias: str) -> None:
    """Wait until this node shows what the cluster has committed; to be called before a handler's transaction begins."""
    connection = connections[alias]
    if is_galera(connection) and connection.mysql_is_mariadb:  # type: ignore[attr-defined]
        with connection.cursor() as cursor:
            cursor.execute(f"{_WAITING}SELECT 1")
            cursor.fetchone()
