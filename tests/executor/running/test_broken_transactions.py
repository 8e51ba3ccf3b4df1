"""Servers that roll a whole transaction back by themselves, under a handler that continues as if nothing happened."""

from collections.abc import Iterator
from contextlib import suppress
from threading import Event
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, connection, transaction

from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import NextState, TaskStatus
from django_delayed_tasks.store.sql.tables import EXECUTOR
from tests.executor.atomic_runs import effects, run_once, settled_later, write
from tests.executor.parts import claim_one
from tests.races.blocking import wait_until_blocked
from tests.threads import DatabaseThread, start_thread

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]


def write_raw(name: str) -> None:
    """Write as :func:`write` does, without the ORM, which allows no statement after an error of its own."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {EXECUTOR} (name, host, pid, threads, codes, started_at, heartbeat_at, expires_at)"
            " VALUES (%s, 'h', 1, 1, '[]', '2026-01-01', '2026-01-01', '2026-01-01')",
            [name],
        )


def touch(name: str) -> None:
    """Lock that effect by writing to it."""
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {EXECUTOR} SET threads = threads + 1 WHERE name = %s AND host = 'h'", [name])


class Rival:
    """Another transaction that holds one effect and wants another; of the two in a deadlock it is not the victim."""

    def __init__(self) -> None:
        self._has_locked = Event()
        self.thread: DatabaseThread[None] | None = None

    def start(self, mine: str, wanted: str) -> None:
        """Lock ``mine``; returns when it waits for ``wanted``."""
        self.thread = start_thread(lambda: self._lock_and_want(mine, wanted))
        assert self._has_locked.wait(30)
        wait_until_blocked(self.thread)

    def finish(self) -> None:
        """Wait until its transaction has ended."""
        assert self.thread is not None
        self.thread.result()

    def _lock_and_want(self, mine: str, wanted: str) -> None:
        with transaction.atomic():
            self._become_the_survivor()
            touch(mine)
            self._has_locked.set()
            touch(wanted)

    def _become_the_survivor(self) -> None:
        if connection.vendor == "postgresql":  # the victim is the transaction that looks first
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL deadlock_timeout = '60s'")
        else:  # the victim is the transaction that has written less
            for number in range(50):
                write(f"weight-{number}")


def deadlocked(rival: Rival) -> Any:
    """A handler that is the victim of a deadlock, swallows the error, and continues."""

    def handle(task: Any) -> None:
        write_raw("before")
        touch("a")
        rival.start(mine="b", wanted="a")
        with suppress(DatabaseError):
            touch("b")
        with suppress(DatabaseError):
            write_raw("after")

    return handle


@pytest.fixture
def contested() -> Iterator[None]:
    write("a")
    write("b")
    yield
    Executor.objects.all().delete()


class TestDeadlock:
    __test__ = settings.DDT_DATABASE != "sqlite"  # one writer at a time

    @pytest.mark.usefixtures("contested")
    def test_that_is_raised_is_tried_again_in_the_same_attempt(self) -> None:
        rival = Rival()
        calls: list[int] = []
        seen: list[str] = []

        def handle(task: Any) -> None:
            calls.append(task.attempts)
            if len(calls) > 1:
                rival.finish()  # or the two might meet again
            write_raw("before")
            touch("a")
            seen.append(task.biz_ext.pop())
            if len(calls) == 1:
                rival.start(mine="b", wanted="a")
            touch("b")

        assert run_once(handle, claim_one(biz_ext=["all of it"]), max_attempts=1) is None
        assert calls == [1, 1]
        assert seen == ["all of it", "all of it"]
        assert effects().count("before") == 1
        assert not Task.objects.exists()

    @pytest.mark.usefixtures("contested")
    def test_that_is_swallowed_commits_nothing(self) -> None:
        rival = Rival()
        left = run_once(deadlocked(rival))
        rival.finish()
        assert settled_later(left) is NextState.RETRY
        assert {"before", "after"}.isdisjoint(effects())
        assert Task.objects.get().status == TaskStatus.PENDING


class TestOrRollback:
    """SQLite ends the transaction at OR ROLLBACK, as it may when its disk is full."""

    __test__ = settings.DDT_DATABASE == "sqlite"

    def test_that_is_swallowed_commits_nothing(self) -> None:
        def handle(task: Any) -> None:
            write_raw("before")
            with suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute(f"UPDATE OR ROLLBACK {EXECUTOR} SET threads = NULL")
            with suppress(DatabaseError):
                write_raw("after")

        left = run_once(handle)
        assert settled_later(left) is NextState.RETRY
        assert effects() == []
