"""Clusters whose nodes may be a moment behind each other: Galera and MySQL Group Replication (docs/decisions/0005).

A node shows what the cluster has committed a little later than the node that committed it. Writes are safe all the
same: conflicting ones are refused at COMMIT. But "no such row" may only mean "not here yet", so a statement that
decides whether a claim or a lease is held first waits until its node has caught up.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, TypeVar

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.store.sql.tables import TASK

NOT_READY = frozenset({1047, 3781, 3783, 3796, 3797, 3798, 3799})
"""The errors of a node that is not, or not yet, part of the majority; it has not executed the statement."""
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
    """Return the cluster of which this connection's server is a node; asks each server of each alias once."""
    return asked_once(connection, _ask) if connection.vendor == "mysql" else None


def _ask(connection: BaseDatabaseWrapper) -> Cluster | None:
    with connection.wrap_database_errors, connection.connection.cursor() as cursor:
        names = "'wsrep_on', 'group_replication_group_name'"
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
        found = dict(cursor.fetchall())
    if found.get("wsrep_on") == "ON":
        return Cluster.GALERA
    return Cluster.GROUP_REPLICATION if found.get("group_replication_group_name") else None


@contextmanager
def caught_up(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Make what is read and written in the block wait until this node shows what the cluster has committed.

    It waits at the beginning of a transaction only, so that in one that has begun already nothing does.
    """
    cluster = None if connection.in_atomic_block else cluster_of(connection)
    if cluster is None:
        yield
    elif connection.mysql_is_mariadb:  # type: ignore[attr-defined]
        with connection.execute_wrapper(_FirstWaits(cluster)):
            yield
    elif connection.get_autocommit() and id(connection.connection) not in _waiting:
        with _session_waits(connection, cluster):
            yield
    else:  # it waits already; or a transaction that Django did not begin may be open: the variable cannot be set there
        yield


class _FirstWaits:
    """An execute wrapper that lets the first statement wait, which on MariaDB takes no statement of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._prefix = f"SET STATEMENT {cluster.variable} = {cluster.waits} FOR "

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.startswith(_READING_OR_WRITING):
            sql, self._prefix = self._prefix + sql, ""
        return execute(sql, params, many, context)


@contextmanager
def _session_waits(connection: BaseDatabaseWrapper, cluster: Cluster) -> Iterator[None]:
    """Let the transactions of this session wait within the block; a statement before it and one after it say so."""
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


def catch_up(alias: str) -> None:
    """Wait until this node shows what the cluster has committed; to be called before a handler's transaction begins."""
    connection = connections[alias]
    if cluster_of(connection):
        with caught_up(connection), connection.cursor() as cursor:
            # With a table, though without a row of it: MySQL waits for nothing that reads none.
            cursor.execute(f"SELECT 1 FROM {TASK} WHERE id = 0")
            cursor.fetchone()
