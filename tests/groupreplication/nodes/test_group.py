"""A group of three nodes that all take writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection, connections
from django.test import override_settings

from django_delayed_tasks import api
from django_delayed_tasks.checks import servers
from django_delayed_tasks.store.sql import transactions
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.transactions import atomically, is_transient
from tests.complaints import numbers
from tests.store import verbs
from tests.store.meters import statements
from tests.threads import start_thread

INCREMENTS = 100


def test_a_decision_takes_two_statements_more(nodes: tuple[str, ...]) -> None:
    """One lets the session wait, the other one no more."""
    verbs.add("1", verbs.HOUR)
    with statements() as sent:
        api.cancel_task(verbs.CODE, "1")
    assert "@@SESSION.group_replication_consistency = " in sent[0]
    assert sent[-1] == "SET SESSION group_replication_consistency = @ddt_usual"
    assert not any("group_replication_consistency" in sql for sql in sent[1:-1])


@pytest.mark.parametrize(
    ("own", "waiting"),
    [("EVENTUAL", "BEFORE"), ("BEFORE", "BEFORE"), ("AFTER", "BEFORE_AND_AFTER"), ("BEFORE_AND_AFTER",) * 2],
)
def test_a_session_that_waits_for_more_still_does(nodes: tuple[str, ...], own: str, waiting: str) -> None:
    def consistency() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@group_replication_consistency")
            return str(cursor.fetchone()[0])

    with connection.cursor() as cursor:
        cursor.execute(f"SET SESSION group_replication_consistency = '{own}'")
    try:
        with dialect_of(connection).caught_up():
            assert consistency() == waiting
        assert consistency() == own
    finally:
        connection.close()


def test_an_add_takes_none_more(nodes: tuple[str, ...]) -> None:
    verbs.add("1", verbs.HOUR)
    with statements() as sent:
        verbs.add("1", 2 * verbs.HOUR)
    assert not any("group_replication_consistency" in sql for sql in sent)


def test_what_a_node_refuses_for_another_is_tried_again(nodes: tuple[str, ...]) -> None:
    """Each COMMIT counts once, though most are refused at first."""
    verbs.add("1", verbs.HOUR)
    refused: list[Any] = []

    def add_one(cursor: Any) -> None:
        cursor.execute("UPDATE django_delayed_tasks_task SET priority = priority + 1 WHERE biz_num = '1'")

    def may_try_again(error: BaseException) -> bool:
        refused.append(error.args[0])
        return is_transient(error)

    def increase(alias: str) -> None:
        for _ in range(INCREMENTS):
            while not has_increased(alias):  # it has lost twelve times in succession
                pass

    def has_increased(alias: str) -> bool:
        try:
            atomically(alias, add_one, may_try_again)
        except OperationalError as error:
            if is_transient(error):
                return False
            raise
        return True

    threads = [start_thread(lambda alias=alias: increase(alias)) for alias in nodes]  # type: ignore[misc]
    for thread in threads:
        thread.result()
    transactions.catch_up("default")
    assert verbs.present("1").priority == len(nodes) * INCREMENTS
    assert {1213, 3101} & {*refused}


@pytest.mark.parametrize(
    ("consistency", "expected"), [("EVENTUAL", ["W014"]), ("BEFORE_ON_PRIMARY_FAILOVER", ["W014"]), ("BEFORE", [])]
)
def test_checks(nodes: tuple[str, ...], consistency: str, expected: list[str]) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute("SET SESSION group_replication_consistency = %s", [consistency])
    assert numbers(["default"]) == expected
    with override_settings(DELAYED_TASKS={"CLAIM": "skip_locked"}):
        assert numbers(["default"]) == ["E016", *expected]


class Splitter:
    """A connection behind a proxy that asks one server outside of transactions, and another one within them."""

    def __init__(self, reader: str, writer: str) -> None:
        self._reader, self._writer = connections[reader].cursor(), connections[writer].cursor()
        self._asked = self._reader
        self._writes = False

    @contextmanager
    def cursor(self) -> "Iterator[Splitter]":
        yield self

    def execute(self, sql: str) -> None:
        self._writes = sql.startswith("START") or (self._writes and sql != "ROLLBACK")
        self._asked = self._writer if self._writes or sql == "ROLLBACK" else self._reader
        self._asked.execute(sql)

    def fetchone(self) -> Any:
        return self._asked.fetchone()


@pytest.mark.parametrize(("reader", "expected"), [("default", 0), ("node2", 1)])
def test_a_splitter_of_reads_and_writes_is_found(nodes: tuple[str, ...], reader: str, expected: int) -> None:
    splitter: Any = Splitter(reader, "default")
    assert len([*servers._splitter_problems("default", splitter)]) == expected
