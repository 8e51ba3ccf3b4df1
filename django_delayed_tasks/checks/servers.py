"""Checks for settings of MariaDB and MySQL servers, and of clusters, that break promises of this library."""

from collections.abc import Iterable, Iterator
from datetime import timedelta

from django.core.checks import CheckMessage, Error, Warning
from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.checks.options import line_for
from django_delayed_tasks.store.sql.clusters import CURRENT, Cluster, cluster_of
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.tables import EXECUTOR

NAMES = (
    "innodb_flush_log_at_trx_commit", "log_bin", "binlog_format", "wsrep_sync_wait", "innodb_autoinc_lock_mode",
    "group_replication_consistency", "group_replication_single_primary_mode",
)  # fmt: skip
REFUSED_MODES = {"SIMULTANEOUS_ASSIGNMENT", "EMPTY_STRING_IS_NULL"}
"""Modes of MariaDB; its mode ORACLE includes the first one."""
FEWEST_ROWS = 1_000_000
"""The lowest sql_select_limit that is no limit: no list that is read at once, as that of the levels, is so long."""
LOOKS = 5
"""Times that a session is asked which server answers: a splitter of reads and writes may have several replicas."""
_SERVER = "SELECT @@hostname, @@port, @@server_id"


def server_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    """Yield W012 to W016 and W026."""
    variables = _variables(connection)
    yield from _durability_problems(alias, variables)
    yield from _binlog_problems(alias, variables)
    if cluster := cluster_of(connection):
        yield from _cluster_problems(alias, cluster, variables)
        yield from _clock_problems(alias, cluster, connection)
    if cluster is not Cluster.GALERA and not connection.in_atomic_block:
        yield from _splitter_problems(alias, connection)


def _variables(connection: BaseDatabaseWrapper, names: Iterable[str] = NAMES) -> dict[str, str]:
    listed = ", ".join(f"'{name}'" for name in names)
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({listed})")
        return {name.lower(): value for name, value in cursor.fetchall()}


def mode_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    """Yield E009 for settings that are known to change what statements do, or which are refused."""
    variables: dict[str, str] = {}
    for name in ("sql_mode", "sql_safe_updates", "sql_select_limit"):  # one by one: MariaDB's limit holds for SHOW, too
        variables |= _variables(connection, [name])
    if found := sorted(REFUSED_MODES.intersection(variables.get("sql_mode", "").split(","))):
        yield Error(
            f"The sessions of the database {alias!r} have the sql_mode {', '.join(found)}.",
            hint="It changes the meaning of UPDATE and of the empty string, so that statements of this library fail. "
            "Remove it from "
            f"DATABASES[{alias!r}]['OPTIONS'] (sql_mode, init_command) or from the server.",
            id="django_delayed_tasks.E009",
        )
    if variables.get("sql_safe_updates") == "ON":
        yield _wrong_value(alias, "sql_safe_updates = ON", "The server then refuses the deletion of tasks.")
    if int(variables.get("sql_select_limit", FEWEST_ROWS)) < FEWEST_ROWS:
        limit = f"sql_select_limit = {variables['sql_select_limit']}"
        yield _wrong_value(alias, limit, "Rows that are beyond it are not found, without an error.")


def _wrong_value(alias: str, setting: str, why: str) -> CheckMessage:
    return Error(
        f"The sessions of the database {alias!r} have {setting}.",
        hint=f"{why} Remove it from DATABASES[{alias!r}]['OPTIONS'] (init_command) or from the server.",
        id="django_delayed_tasks.E009",
    )


def _durability_problems(alias: str, variables: dict[str, str]) -> Iterator[CheckMessage]:
    value = variables.get("innodb_flush_log_at_trx_commit", "1")
    if value != "1":
        yield Warning(
            f"The server of the database {alias!r} has innodb_flush_log_at_trx_commit = {value}.",
            hint="A crash may undo the last second's commits: accepted tasks are lost, and finished ones run again. "
            "Set it to 1, on each node of a cluster too.",
            id="django_delayed_tasks.W012",
        )


def _binlog_problems(alias: str, variables: dict[str, str]) -> Iterator[CheckMessage]:
    if variables.get("log_bin") == "ON" and variables.get("binlog_format") == "STATEMENT":
        yield Warning(
            f"The server of the database {alias!r} has binlog_format = STATEMENT.",
            hint="InnoDB then refuses writes at READ COMMITTED, and at any other level replicas would claim other "
            "tasks than their source did. Set it to ROW.",
            id="django_delayed_tasks.W013",
        )


def _splitter_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    with connection.cursor() as cursor:
        readers = {_answered(cursor) for _ in range(LOOKS)}
        try:
            cursor.execute("START TRANSACTION READ WRITE")
        except DatabaseError:  # the alias of a replica, on which this user may not write
            return
        try:
            writer = _answered(cursor)
        finally:
            cursor.execute("ROLLBACK")
    if readers != {writer}:
        reader = next(iter(readers - {writer}))
        yield Warning(
            f"The sessions of the database {alias!r} read on {reader[0]}:{reader[1]} and write on "
            f"{writer[0]}:{writer[1]}.",
            hint="A replica shows a commit later, and nothing can wait for it: an executor would take tasks that it "
            "holds for lost, and what was just added would not be found. Give the tasks an alias that leads to the "
            "primary server alone, by the proxy's port for writing.",
            id="django_delayed_tasks.W026",
        )


def _answered(cursor: CursorWrapper) -> tuple[str, int, int]:
    cursor.execute(_SERVER)
    host, port, number = cursor.fetchone()
    return host, port, number


def _cluster_problems(alias: str, cluster: Cluster, variables: dict[str, str]) -> Iterator[CheckMessage]:
    if not _waits(cluster, variables):
        command = f"SET SESSION {cluster.variable} = {cluster.waits}"
        yield Warning(
            f"On the {cluster.title} cluster of the database {alias!r} a session does not immediately see what was "
            "committed on another node.",
            hint="Within your own transactions cancel_task may not find a task that was just added, and a handler may "
            f"not find the rows that its task needs. Add to the settings: {line_for(alias, 'init_command', command)}",
            id="django_delayed_tasks.W014",
        )
    if cluster is Cluster.GALERA and variables["innodb_autoinc_lock_mode"] != "2":
        yield Warning(
            f"The Galera cluster of the database {alias!r} has innodb_autoinc_lock_mode = "
            f"{variables['innodb_autoinc_lock_mode']}.",
            hint="Replication from other nodes needs 2; with another mode, inserts may deadlock and fail.",
            id="django_delayed_tasks.W015",
        )


def _waits(cluster: Cluster, variables: dict[str, str]) -> bool:
    """Return whether a session's own transactions see what was committed before, on any node."""
    value = variables[cluster.variable]
    if cluster is Cluster.GALERA:
        return int(value) & CURRENT == CURRENT
    if variables["group_replication_single_primary_mode"] == "ON":  # others are behind only after a failover
        return value != "EVENTUAL"
    return value in ("BEFORE", "AFTER", "BEFORE_AND_AFTER")


def _clock_problems(alias: str, cluster: Cluster, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    skew = _skew(connection)
    if skew > timedelta(seconds=1):
        yield Warning(
            f"On the {cluster.title} cluster of the database {alias!r} an executor's heartbeat lies "
            f"{skew.total_seconds():.1f} s in the future: the clocks of the nodes differ.",
            hint="Leases and due times are decided by the clock of the queried node. Synchronize the clocks "
            "(NTP, chrony).",
            id="django_delayed_tasks.W016",
        )


def _skew(connection: BaseDatabaseWrapper) -> timedelta:
    """Return how far the latest heartbeat is ahead of this node's clock."""
    if EXECUTOR not in connection.introspection.table_names():
        return timedelta()
    dialect = dialect_of(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {dialect.now}, MAX(heartbeat_at) FROM {EXECUTOR} WHERE alive = TRUE")
        now, latest = cursor.fetchone()
    return dialect.to_datetime(latest) - dialect.to_datetime(now) if latest else timedelta()
