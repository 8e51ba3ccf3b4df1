"""The check that asks which server reads and which one writes."""

from typing import Any

import pytest
from django.db import OperationalError, connection

from django_delayed_tasks.checks.servers import server_problems

pytestmark = pytest.mark.skipif(connection.vendor != "mysql", reason="only MariaDB and MySQL have this check")


def ids() -> set[str]:
    return {str(message.id).rpartition(".")[2] for message in server_problems("default", connection)}


def test_one_server_for_both_is_no_problem(live_db: str) -> None:
    assert "W026" not in ids()
    assert not connection.in_atomic_block


def test_of_a_replica_nothing_is_said(live_db: str) -> None:
    """A user who may not write there cannot begin a transaction that does."""

    def refuse(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql == "START TRANSACTION READ WRITE":
            raise OperationalError(1290, "The server is running with the --read-only option")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse):
        assert "W026" not in ids()
