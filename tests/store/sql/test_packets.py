"""Statements that need no answer in between are sent together; all is as if they were sent one by one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.models import PausedQueue
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.packets import BETWEEN, send_with_next
from django_delayed_tasks.store.sql.transactions import atomically, in_one_statement
from tests.store.sql.test_beginning import in_own_thread, pause, paused
from tests.threads import in_thread

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("packets")]
TABLE = PausedQueue._meta.db_table
INSERT = f"INSERT INTO {TABLE} (queue, paused_at) VALUES (%s, '2026-01-02 03:04:05')"
COUNT = f"SELECT COUNT(*), '100 %' FROM {TABLE}"


class Mistake(Exception):
    pass


@contextmanager
def sent() -> Iterator[list[str]]:
    """Yield what is sent meanwhile: one text for each packet."""
    texts: list[str] = []
    paused()  # a new connection sends more at first

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        texts.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield texts


def packets_are_sent() -> bool:
    connection.ensure_connection()
    return dialect_of(connection).sends_packets


def test_what_waits_is_sent_with_the_next_statement_and_at_the_end() -> None:
    def write(cursor: CursorWrapper) -> int:
        send_with_next(cursor, INSERT, ["50 %"], rows=1)
        send_with_next(cursor, INSERT, ["b"], rows=1)
        cursor.execute(COUNT)
        [[count, text]] = cursor.fetchall()
        assert text == "100 %"
        send_with_next(cursor, f"DELETE FROM {TABLE} WHERE queue = 'b'", rows=1)
        return int(count)

    def work() -> None:
        with sent() as texts:
            assert atomically("default", write) == 2
        if connection.vendor == "sqlite":
            assert len(texts) == 5  # BEGIN is one
        elif packets_are_sent():
            assert [text.count(BETWEEN) for text in texts] == [3, 0]
        assert in_thread(paused) == {"50 %"}

    in_own_thread(work)


def test_drivers_of_all_databases_under_test_send_packets() -> None:
    in_own_thread(lambda: assert_equal(packets_are_sent(), connection.vendor != "sqlite"))


def assert_equal(one: object, other: object) -> None:
    assert one == other


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_error_in_any_of_them_undoes_all(number: int) -> None:
    def write(cursor: CursorWrapper) -> None:
        for place in (1, 2):
            send_with_next(cursor, INSERT, ["same" if place == number else f"q{place}"])
        cursor.execute(INSERT, ["same" if number == 3 else "q3"])
        raise AssertionError("an error is raised before")

    def work() -> None:
        pause("same")
        with pytest.raises(DatabaseError):
            atomically("default", write)
        assert in_thread(paused) == {"same"}
        assert connection.get_autocommit()
        pause("after")
        assert in_thread(paused) == {"same", "after"}, "outside of a transaction each statement is committed"
        atomically("default", lambda cursor: pause("again"))
        assert in_thread(paused) == {"same", "after", "again"}

    in_own_thread(work)


def test_an_error_in_what_is_sent_at_the_end_undoes_all() -> None:
    def write(cursor: CursorWrapper) -> None:
        send_with_next(cursor, INSERT, ["a"])
        send_with_next(cursor, INSERT, ["a"])

    def work() -> None:
        with pytest.raises(DatabaseError):
            atomically("default", write)
        assert in_thread(paused) == set()

    in_own_thread(work)


@pytest.mark.parametrize("is_last", [True, False])
def test_another_number_of_rows_undoes_all(is_last: bool) -> None:
    def write(cursor: CursorWrapper) -> None:
        send_with_next(cursor, INSERT, ["a"], rows=1, otherwise=Mistake)
        send_with_next(cursor, f"DELETE FROM {TABLE} WHERE queue = 'b'", rows=1, otherwise=Mistake)
        if not is_last:
            cursor.execute(COUNT)

    def work() -> None:
        with pytest.raises(Mistake):
            atomically("default", write)
        assert in_thread(paused) == set()

    in_own_thread(work)


def test_after_work_that_fails_before_its_first_statement_nothing_waits() -> None:
    def fail(cursor: CursorWrapper) -> None:
        send_with_next(cursor, INSERT, ["a"])
        raise Mistake

    def work() -> None:
        for broken in (fail, lambda cursor: fail(cursor)):
            with pytest.raises((Mistake, DatabaseError)):
                atomically("default", broken)
        atomically("default", lambda cursor: None)
        with sent() as texts:
            in_one_statement("default", lambda cursor: cursor.execute(COUNT))
        assert texts == [COUNT]
        assert in_thread(paused) == set()
        pause("b")
        assert in_thread(paused) == {"b"}

    in_own_thread(work)


def test_transactions_of_others_begin_at_once() -> None:
    """Code that uses the driver's connection itself would not send what waits."""

    def work() -> None:
        connection.ensure_connection()
        with transaction.atomic():
            connection.connection.cursor().execute(INSERT.replace("%s", "'a'"))
            assert in_thread(paused) == set()
            transaction.set_rollback(True)
        assert in_thread(paused) == set()

    in_own_thread(work)


def test_many_rows_and_savepoints() -> None:
    def write(cursor: CursorWrapper) -> None:
        send_with_next(cursor, INSERT, ["a"])
        with pytest.raises(Mistake), transaction.atomic():
            send_with_next(cursor, INSERT, ["b"])
            raise Mistake
        send_with_next(cursor, INSERT, ["c"])
        cursor.executemany(INSERT, [["d"], ["e"]])

    def work() -> None:
        atomically("default", write)
        assert in_thread(paused) == {"a", "c", "d", "e"}

    in_own_thread(work)


def test_in_a_callers_transaction_nothing_waits() -> None:
    def work() -> None:
        with transaction.atomic():
            atomically("default", lambda cursor: send_with_next(cursor, INSERT, ["a"]))
            assert paused() == {"a"}
            transaction.set_rollback(True)

    in_own_thread(work)


@pytest.mark.skipif(connection.vendor != "mysql", reason="an option of mysqlclient")
def test_one_by_one_unless_multi_statements_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "multi_statements", False)
    assert_one_by_one()
    monkeypatch.delitem(connection.settings_dict["OPTIONS"], "multi_statements")
    assert_one_by_one("c", "d")


@pytest.mark.skipif(connection.vendor != "postgresql", reason="options of psycopg")
@pytest.mark.parametrize("isolation_level", [None, 4])
def test_one_by_one_where_psycopg_does_more(monkeypatch: pytest.MonkeyPatch, isolation_level: int | None) -> None:
    """With server-side binding, or if it is to begin transactions with more than BEGIN."""
    options = {"isolation_level": isolation_level} if isolation_level else {"server_side_binding": True}
    for name, value in options.items():
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], name, value)
    assert_one_by_one()


def assert_one_by_one(*queues: str) -> None:
    one, other = queues or ("a", "b")

    def write(cursor: CursorWrapper) -> None:
        send_with_next(cursor, INSERT, [one])
        send_with_next(cursor, INSERT, [other])

    def work() -> None:
        with sent() as texts:
            atomically("default", write)
        assert texts == [INSERT, INSERT]
        assert in_thread(paused) >= {one, other}

    in_own_thread(work)
