"""On SQLite the threads of one process take turns to write: a thread that found the write lock taken would sleep."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.store.sql import transactions
from django_delayed_tasks.store.sql.dialects import sqlite
from django_delayed_tasks.store.sql.tables import TASK
from tests.store.verbs import ALIAS
from tests.threads import start_thread

pytestmark = pytest.mark.django_db(transaction=True)
__test__ = connection.vendor == "sqlite"


def never(error: BaseException) -> bool:
    """Do not try again."""
    return False


def write(cursor: CursorWrapper) -> None:
    cursor.execute(f"UPDATE {TASK} SET version = version WHERE id < 0")


def write_without_waiting(times: int, way: Callable[..., Any]) -> None:
    """Write in this way, which fails if another connection is writing."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 0")
    for _ in range(times):
        way(ALIAS, write, never)
    connection.close()


def test_threads_take_turns() -> None:
    writers = [start_thread(partial(write_without_waiting, 100, way)) for way in (*WAYS, *WAYS)]
    for writer in writers:
        writer.result()


def test_what_follows_a_commit_is_part_of_the_same_turn() -> None:
    followed: list[str] = []

    def follow() -> None:
        transactions.atomically(ALIAS, write, never)
        followed.append("in time")

    start_thread(lambda: transactions.atomically(ALIAS, lambda cursor: transaction.on_commit(follow), never)).result(4)
    assert followed == ["in time"]


@contextmanager
def turn_of_another_thread() -> Iterator[None]:
    """Another thread has the turn, while SQLite's own lock is free."""
    begun, done = threading.Event(), threading.Event()

    def hang(cursor: CursorWrapper) -> None:
        cursor.execute("ROLLBACK")
        begun.set()
        done.wait()
        cursor.execute("BEGIN")

    hanging = start_thread(lambda: transactions.atomically(ALIAS, hang, never))
    begun.wait()
    try:
        yield
    finally:
        done.set()
        hanging.result()


WAYS = (transactions.atomically, transactions.in_one_write, transactions.decisive_write)


@pytest.mark.parametrize("way", WAYS)
def test_a_turn_that_does_not_end_keeps_no_thread_waiting_for_ever(
    monkeypatch: pytest.MonkeyPatch, way: Callable[..., Any]
) -> None:
    monkeypatch.setattr(sqlite, "MAX_TURN", 0.01)
    with turn_of_another_thread():
        way(ALIAS, write, never)


@pytest.mark.parametrize("way", WAYS)
def test_a_callers_transaction_takes_no_turn(way: Callable[..., Any]) -> None:
    """A thread that has the turn may be waiting for the lock that SQLite has given to this transaction."""
    with turn_of_another_thread(), transaction.atomic():
        began = clock.monotonic()
        way(ALIAS, write, never)
        assert clock.monotonic() - began < sqlite.MAX_TURN
