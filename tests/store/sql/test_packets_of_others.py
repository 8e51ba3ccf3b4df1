"""Transactions that send packets, and code that does what the package itself does not do."""

from contextlib import suppress
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.store.sql.packets import send_with_next
from django_delayed_tasks.store.sql.transactions import atomically
from tests.store.sql.test_beginning import in_own_thread, pause, paused
from tests.store.sql.test_packets import INSERT, Mistake
from tests.threads import in_thread

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("packets")]


def test_a_hook_after_a_transaction_that_sent_nothing_is_outside_of_it() -> None:
    def work() -> None:
        atomically("default", lambda cursor: transaction.on_commit(lambda: pause("a")))
        assert in_thread(paused) == {"a"}

    in_own_thread(work)


@pytest.mark.parametrize("mistake", [Mistake, UnicodeError])
def test_work_that_continues_after_a_failed_packet_writes_nothing(mistake: type[Exception]) -> None:
    """The BEGIN may not have reached the server, and what waited was not executed."""

    def write(cursor: CursorWrapper) -> None:
        send_with_next(cursor, INSERT, ["a"])
        with suppress(DatabaseError, UnicodeError):
            if mistake is UnicodeError:
                cursor.execute(INSERT, ["\ud800"])
            else:
                cursor.execute("no statement")
        cursor.execute(INSERT, ["b"])
        raise Mistake

    def work() -> None:
        with pytest.raises((Mistake, DatabaseError, transaction.TransactionManagementError)):
            atomically("default", write)
        assert in_thread(paused) == set()

    in_own_thread(work)


def test_what_waits_is_not_lost_when_work_continues_after_an_error() -> None:
    def write(cursor: CursorWrapper) -> None:
        send_with_next(cursor, INSERT, ["a"])
        with suppress(UnicodeError):
            cursor.execute(INSERT, ["\ud800"])
        cursor.execute(INSERT, ["b"])

    def work() -> None:
        with suppress(transaction.TransactionManagementError):
            atomically("default", write)
        assert in_thread(paused) in (set(), {"a", "b"})

    in_own_thread(work)


def test_named_parameters() -> None:
    def write(cursor: CursorWrapper) -> None:
        send_with_next(cursor, INSERT, ["a"])
        cursor.execute(INSERT.replace("%s", "%(queue)s"), {"queue": "b"})

    def work() -> None:
        atomically("default", write)
        assert in_thread(paused) == {"a", "b"}

    in_own_thread(work)


def test_a_wrapper_that_was_removed_lets_nothing_wait() -> None:
    """Django's execute_wrapper() removes the last wrapper, which need not be its own."""

    def fail(cursor: CursorWrapper) -> None:
        cursor.execute(INSERT, ["a"])
        raise Mistake

    def work() -> None:
        if connection.vendor != "sqlite":
            connection.execute_wrappers.pop()
        with pytest.raises(Mistake):
            atomically("default", fail)
        atomically("default", lambda cursor: send_with_next(cursor, INSERT, ["b"]))
        assert in_thread(paused) == {"b"}

    in_own_thread(work)


def test_transactions_of_those_who_hear_of_a_new_connection() -> None:
    def ask(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
        with transaction.atomic(using=connection.alias):
            pass
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    def work() -> None:
        atomically("default", lambda cursor: cursor.execute(INSERT, ["a"]))
        assert in_thread(paused) == {"a"}

    connection_created.connect(ask)
    try:
        in_own_thread(work)
    finally:
        connection_created.disconnect(ask)
