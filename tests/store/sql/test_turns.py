"""On SQLite the threads of one process take turns to write: a thread that found the write lock taken would sleep."""

import threading

import pytest
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

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


def write_without_waiting(times: int) -> None:
    """Write in transactions that fail if another connection is writing."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 0")
    for _ in range(times):
        transactions.atomically(ALIAS, write, never)
    connection.close()


def test_threads_take_turns() -> None:
    writers = [start_thread(lambda: write_without_waiting(100)) for _ in range(4)]
    for writer in writers:
        writer.result()


def test_what_follows_a_commit_is_part_of_the_same_turn() -> None:
    followed: list[str] = []

    def follow() -> None:
        transactions.atomically(ALIAS, write, never)
        followed.append("in time")

    start_thread(lambda: transactions.atomically(ALIAS, lambda cursor: transaction.on_commit(follow), never)).result(4)
    assert followed == ["in time"]


def test_a_thread_that_does_not_end_its_turn_keeps_no_other_waiting_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "LONGEST_TURN", 0.01)
    begun, done = threading.Event(), threading.Event()

    def hang(cursor: CursorWrapper) -> None:
        cursor.execute("ROLLBACK")  # SQLite's own lock is free
        begun.set()
        done.wait()
        cursor.execute("BEGIN")

    hanging = start_thread(lambda: transactions.atomically(ALIAS, hang, never))
    begun.wait()
    transactions.atomically(ALIAS, write, never)
    done.set()
    hanging.result()
