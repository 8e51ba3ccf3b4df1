"""What is asked of a server that is no node of a cluster, and what is made of a node's settings."""

from typing import Any

import pytest
from django.db import OperationalError, connection

from django_delayed_tasks.checks import servers
from django_delayed_tasks.store.sql import clusters, transactions
from django_delayed_tasks.store.sql.transactions import decisively, is_transient
from tests.store.meters import statements


@pytest.mark.skipif(connection.vendor != "mysql", reason="others have no such clusters")
def test_a_single_server_is_no_cluster(live_db: str) -> None:
    assert clusters.cluster_of(connection) is None


def test_nothing_waits_there(live_db: str) -> None:
    """One statement, as it was given."""
    with statements() as sent:
        decisively("default", lambda cursor: cursor.execute("SELECT 1"))
        transactions.catch_up("default")
    assert sent == ["SELECT 1"]


def test_a_node_that_is_not_ready_is_asked_again() -> None:
    assert is_transient(OperationalError(1047, "WSREP has not yet prepared node for application use"))
    # Whether this COMMIT took effect is not known: nothing is repeated before that is found out.
    assert not is_transient(OperationalError(1180, "Error while appending streaming replication fragment"))
    assert not is_transient(OperationalError(3100, "Error on observer while running replication hook 'before_commit'."))


def test_what_another_node_has_ended_is_tried_again() -> None:
    ended = "Got error 149 - 'Lock deadlock; Retry transaction' during COMMIT"
    assert is_transient(OperationalError(1180, ended))
    assert is_transient(OperationalError(3101, "Plugin instructed the server to rollback the current transaction."))


def ids(problems: Any) -> list[str]:
    return [problem.id.rpartition(".")[2] for problem in problems]


@pytest.mark.parametrize(("value", "expected"), [("0", ["W012"]), ("1", []), ("2", ["W012"])])
def test_commits_are_flushed(value: str, expected: list[str]) -> None:
    assert ids(servers._durability_problems("default", {"innodb_flush_log_at_trx_commit": value})) == expected


@pytest.mark.parametrize(
    ("log", "form", "expected"),
    [("ON", "STATEMENT", ["W013"]), ("OFF", "STATEMENT", []), ("ON", "ROW", []), ("ON", "MIXED", [])],
)
def test_the_binary_log(log: str, form: str, expected: list[str]) -> None:
    assert ids(servers._binlog_problems("default", {"log_bin": log, "binlog_format": form})) == expected


@pytest.mark.parametrize(
    ("waits", "mode", "expected"),
    [("7", "2", []), ("15", "2", []), ("0", "2", ["W014"]), ("3", "2", ["W014"]), ("7", "1", ["W015"])],
)
def test_a_node(waits: str, mode: str, expected: list[str]) -> None:
    variables = {"wsrep_sync_wait": waits, "innodb_autoinc_lock_mode": mode}
    assert ids(servers._cluster_problems("default", clusters.Cluster.GALERA, variables)) == expected
