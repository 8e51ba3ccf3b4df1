"""Which connections leases use, and what happens when one breaks."""

import gc
import sqlite3
from contextlib import suppress
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import Error, connection, transaction

from django_delayed_tasks.leases import Pool, mutex
from django_delayed_tasks.leases.acquiring import may_pass
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.leases.waiting import reconnecting
from django_delayed_tasks.models import Resource, Waiter
from django_delayed_tasks.store.resources import line
from django_delayed_tasks.store.resources.resources import WantedResource
from django_delayed_tasks.store.sql.transactions import read_rows
from tests.leases.rows import POOL, add, free_names
from tests.sessions import sessions
from tests.threads import in_thread, start_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]

OURS = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}
KILL = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}


def answer(sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0] if cursor.description else None


def open_connections() -> int:
    """Return the number of connections to the test database; those of this process if the database is a file.

    (SQLite keeps the file descriptor of a closed one while others of the process have the file open.)
    """
    if connection.vendor in OURS:
        return len(sessions())
    gc.collect()
    return sum(isinstance(found, sqlite3.Connection) for found in gc.get_objects())


def test_none_is_left_behind() -> None:
    add(*"abc")
    before = open_connections()
    seen: list[int] = []

    def work() -> None:
        with Pool(POOL).lease(wait=60), mutex("index", wait=60):
            seen.append(1)

    threads = [start_thread(work) for _ in range(12)]
    for thread in threads:
        thread.result()
    assert len(seen) == 12
    wait_until(lambda: open_connections() == before)
    with mutex("index"):
        wait_until(lambda: renewer._threads)
    wait_until(lambda: open_connections() == before)


COMMIT = "_commit"
"""The method of Django's connections that sends the COMMIT to the server."""


def break_connection() -> None:
    """Break this thread's connection, as a server does with one that was idle for long; a file has none to break."""
    if connection.vendor in OURS:
        number = answer(OURS[connection.vendor])
        in_thread(lambda: answer(KILL[connection.vendor].format(number)))


def test_it_broke_while_the_lease_was_held() -> None:
    """The holder did something else for hours: what it held is given back all the same, with its state."""
    with mutex("index") as lease:
        break_connection()
        lease.check()
        lease.state = {"at": 1}
        break_connection()
    assert not Resource.objects.get(name="index").holder
    add("a")
    with Pool(POOL).lease():
        break_connection()
    assert free_names() == ["a"]
    break_connection()
    with mutex("index", wait=60) as lease:
        assert lease.state == {"at": 1}


def test_it_broke_while_one_waited() -> None:
    is_waiting = Event()
    numbers: list[int] = []

    def told(*holder: Any) -> None:
        if connection.vendor in OURS:
            numbers.append(answer(OURS[connection.vendor]))
        is_waiting.set()

    def wait() -> int:
        with mutex("index", wait=None, on_standby=told) as lease:
            return lease.token

    with mutex("index") as lease:
        thread = start_thread(wait)
        assert is_waiting.wait(60)
        for number in numbers[:1]:
            answer(KILL[connection.vendor].format(number))
    assert thread.result() == lease.token + 1


def test_it_broke_just_after_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """On MariaDB and MySQL Django sends one more statement before the transaction is over for it."""
    usual, broken = getattr(connection, COMMIT), Event()

    def commit() -> None:
        usual()
        if not broken.is_set():
            broken.set()
            break_connection()

    monkeypatch.setattr(connection, COMMIT, commit)
    place = reconnecting("default", lambda: line.enter("default", WantedResource("proxies"), timedelta(seconds=60)))
    assert broken.is_set()
    assert connection.get_autocommit()
    assert Waiter.objects.filter(pk=place).exists()


def test_what_meets_one_that_was_closed_may_pass() -> None:
    connection.ensure_connection()
    used = connection.connection
    assert not may_pass(Error(), "default", used)
    connection.close()
    assert may_pass(Error(), "default", used)
    connection.ensure_connection()
    assert may_pass(Error(), "default", used)


def test_a_transaction_keeps_its_connection() -> None:
    """This is so even if PostgreSQL executes nothing more in it: the caller has to end it."""
    connection.ensure_connection()
    before = connection.connection
    with transaction.atomic():
        with pytest.raises(Error):
            read_rows("default", "SELECT no_such_column")
        assert not may_pass(Error(), "default", before)
        transaction.set_rollback(True)
    assert connection.connection is before


def test_one_that_breaks_within_a_transaction_ends_with_it() -> None:
    connection.ensure_connection()
    before = connection.connection
    with suppress(Error), transaction.atomic():
        break_connection()
        with suppress(Error):
            read_rows("default", "SELECT 1")
        assert not may_pass(Error(), "default", before)
        assert connection.connection is before
    connection.close()


def test_nothing_is_repeated_inside_a_transaction() -> None:
    """What came before in it would be missing."""
    if connection.vendor in OURS:
        with mutex("index") as lease:
            lease.state = {"at": 1}
            with pytest.raises(Exception, match=r"(?i)gone away|lost|terminat|closed"), transaction.atomic():
                break_connection()
                lease.save_state()
            connection.close()
    with mutex("index") as lease:
        assert lease.state.get("at") == (1 if connection.vendor in OURS else None)
