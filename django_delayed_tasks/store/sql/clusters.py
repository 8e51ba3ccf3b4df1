"""Clusters whose nodes may be a moment behind each other: Galera and MySQL Group Replication (docs/decisions/0005).

A node shows what the cluster has committed a little later than the node that committed it. Writes are safe all the
same: conflicting ones are refused at COMMIT. But "no such row" may only mean "not here yet", so a statement that
decides whether a claim or a lease is held first waits until its node has caught up.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import Any, TypeVar

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper

CURRENT = 1 | 2 | 4
"""The bits of wsrep_sync_wait: wait before reads, before UPDATE and DELETE, before INSERT."""
_READING_OR_WRITING = ("SELECT", "(SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
"""The statements that wait; SAVEPOINT, for example, has nothing to wait for."""


_waiting: set[int] = set()
"""The ids of the driver's connections whose sessions wait now: what a hook after the COMMIT decides waits already."""


class Cluster(Enum):
    """A kind of cluster, with the session variable and its value that make transactions wait for other nodes.

    ``also_waits`` is the value for a session that may have one already which lets it wait for more.
    """

    GALERA = ("Galera", "wsrep_sync_wait", str(CURRENT), f"@@wsrep_sync_wait | {CURRENT}")
    GROUP_REPLICATION = (
        "Group Replication",
        "group_replication_consistency",
        "'BEFORE'",
        "IF(@@group_replication_consistency LIKE '%AFTER', 'BEFORE_AND_AFTER', 'BEFORE')",
    )

    def __init__(self, title: str, variable: str, waits: str, also_waits: str) -> None:
        self.title = title
        self.variable = variable
        self.waits = waits
        self.also_waits = also_waits


T = TypeVar("T")
_answers: dict[tuple[str, ...], Any] = {}


def asked_once(connection: BaseDatabaseWrapper, question: Callable[[BaseDatabaseWrapper], T]) -> T:
    """Return ``question(connection)``, which each server of each alias is asked once in this process."""
    settings = connection.settings_dict
    key = (question.__qualname__, connection.alias, str(settings["HOST"]), str(settings["PORT"]))
    if key not in _answers:
        connection.ensure_connection()
        _answers[key] = question(connection)
    answer: T = _answers[key]
    return answer


def cluster_of(connection: BaseDatabaseWrapper) -> Cluster | None:
    """Return the cluster of which this server, a MariaDB or MySQL, is a node; asks each server of each alias once."""
    return asked_once(connection, _ask)


def _ask(connection: BaseDatabaseWrapper) -> Cluster | None:
    with connection.wrap_database_errors, connection.connection.cursor() as cursor:
        names = "'wsrep_on', 'group_replication_group_name'"
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
        found = dict(cursor.fetchall())
    if found.get("wsrep_on") == "ON":
        return Cluster.GALERA
    return Cluster.GROUP_REPLICATION if found.get("group_replication_group_name") else None


def first_waits(connection: BaseDatabaseWrapper, cluster: Cluster) -> AbstractContextManager[None]:
    """Make the first statement in the block wait, on MariaDB, until this node shows what the cluster has committed."""
    return connection.execute_wrapper(_FirstWaits(cluster))


class _FirstWaits:
    """An execute wrapper that lets the first statement wait, which on MariaDB takes no statement of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._prefix = f"SET STATEMENT {cluster.variable} = {cluster.waits} FOR "

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.startswith(_READING_OR_WRITING):
            sql, self._prefix = self._prefix + sql, ""
        return execute(sql, params, many, context)


@contextmanager
def session_waits(connection: BaseDatabaseWrapper, cluster: Cluster) -> Iterator[None]:
    """Make the transactions in the block wait likewise, on MySQL: a statement before it and one after it say so."""
    if not connection.get_autocommit() or id(connection.connection) in _waiting:
        yield  # it waits already; or Django did not begin the transaction, and the variable cannot be set within one
        return
    name = cluster.variable
    with connection.cursor() as cursor:
        cursor.execute(f"SET @ddt_usual = @@{name}, @@SESSION.{name} = {cluster.also_waits}")
    session = connection.connection
    _waiting.add(id(session))
    try:
        yield
    finally:
        _waiting.discard(id(session))
        if connection.connection is session:
            try:
                with connection.cursor() as cursor:
                    cursor.execute(f"SET SESSION {name} = @ddt_usual")
            except Error:  # what was committed is; but no query of the caller is to wait from now on
                connection.close()
