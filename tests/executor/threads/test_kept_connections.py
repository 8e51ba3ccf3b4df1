"""Connections of the executor's threads: what a run leaves behind on one does not reach the next run."""

from collections.abc import Iterator
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db import connections as django_connections
from django.test import override_settings

from django_delayed_tasks import TaskHandler
from django_delayed_tasks.executor.running import watchdog
from django_delayed_tasks.executor.threads import crew
from django_delayed_tasks.leases import mutex
from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.store.sql.transactions import in_one_statement
from tests.executor.atomic_runs import EFFECT
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, executing, handler_of
from tests.executor.settling.test_settler import BREAK
from tests.threads import in_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]


def is_open() -> bool:
    return connection.connection is not None


def close_the_drivers_connection() -> None:
    connection.ensure_connection()
    connection.connection.close()


def test_a_thread_leaves_none_open() -> None:
    def work() -> tuple[bool, bool]:
        with kept_connections.of_thread("default"):
            Task.objects.exists()
            before = is_open()
        return before, is_open()

    assert in_thread(work) == (True, False)


def test_nor_when_it_ends_with_an_error() -> None:
    def work() -> bool:
        with pytest.raises(ZeroDivisionError), kept_connections.of_thread("default"):
            Task.objects.exists()
            raise ZeroDivisionError
        return is_open()

    assert in_thread(work) is False


def test_a_database_that_cannot_be_used_on_this_machine_is_in_the_way_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A project may name one whose driver only some of its machines have; Django tells those who use it."""
    entry = {**django_connections.settings["default"], "ENGINE": "no.such.backend"}
    monkeypatch.setitem(django_connections.settings, "elsewhere", entry)

    def work() -> bool:
        with kept_connections.outside_of_pools(), kept_connections.of_thread("default"):
            kept_connections.OfThread("default").tidy()
            return Task.objects.exists()

    assert in_thread(work) is False


class TestTidy:
    def test_one_that_works_stays_open(self) -> None:
        """Opening a connection for each run would cost more than a short run does."""

        def work() -> bool:
            own = kept_connections.OfThread("default")
            Task.objects.exists()
            before = connection.connection
            own.tidy()
            return connection.connection is before

        assert in_thread(work)

    @pytest.mark.parametrize("way", ["atomic", "autocommit"])
    def test_a_transaction_that_was_left_open_is_rolled_back(self, way: str) -> None:
        def work() -> bool:
            own = kept_connections.OfThread("default")
            if way == "atomic":
                transaction.atomic().__enter__()
            else:
                transaction.set_autocommit(False)
            Executor.objects.create(name="effect", **EFFECT)
            own.tidy()
            assert transaction.get_autocommit()
            assert not connection.in_atomic_block
            return Executor.objects.exists()

        assert in_thread(work) is False
        assert not Executor.objects.exists()


class TestPrepared:
    __test__ = settings.DDT_DATABASE == "sqlite"

    @pytest.mark.parametrize(("configured", "prepared"), [(None, "IMMEDIATE"), ("EXCLUSIVE", "EXCLUSIVE")])
    def test_transactions_are_writers_from_their_beginning_unless_the_project_says_how(
        self, configured: Any, prepared: str
    ) -> None:
        def work() -> Any:
            options = {**connection.settings_dict["OPTIONS"], "transaction_mode": configured}
            connection.settings_dict = {**connection.settings_dict, "OPTIONS": options}
            with kept_connections.of_thread("default"):
                Task.objects.exists()
                return connection.transaction_mode  # type: ignore[attr-defined]

        assert in_thread(work) == prepared


class TestBroken:
    """A server, or what stands before it, has ended the connection of a thread."""

    __test__ = settings.DDT_DATABASE != "sqlite"

    def break_it(self) -> None:
        with pytest.raises(OperationalError), connection.cursor() as cursor:
            cursor.execute(BREAK[connection.vendor])

    def test_that_a_run_has_noticed_is_replaced_before_the_next(self) -> None:
        """Although the handler has swallowed the error."""

        def handle(task: Any) -> None:
            if task.biz_num == "1":
                self.break_it()
            else:
                assert not Executor.objects.filter(id=-1).exists()

        handler_of(handle, max_attempts=1)
        with executing(threads=1):
            for num in ("1", "2"):
                add(num)
                wait_until(lambda: TaskRun.objects.filter(biz_num=num).exists())  # noqa: B023
        assert list(TaskRun.objects.values_list("outcome", flat=True)) == [RunOutcome.DONE] * 2

    @pytest.mark.parametrize("way", ["idle", "another one was lost"])
    def test_while_its_thread_waits_is_replaced_before_the_next_run(
        self, monkeypatch: pytest.MonkeyPatch, way: str
    ) -> None:
        """It has waited for long, or others of this process were found dead."""
        numbers: list[int] = []

        def handle(task: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute({"mysql": "SELECT CONNECTION_ID()"}.get(connection.vendor, "SELECT pg_backend_pid()"))
                numbers.append(cursor.fetchone()[0])

        monkeypatch.setattr(crew, "IDLE", 0.0 if way == "idle" else 3600.0)
        handler_of(handle, max_attempts=1)
        with executing(threads=1):
            for num in ("1", "2"):
                add(num)
                wait_until(lambda: TaskRun.objects.filter(biz_num=num).exists())  # noqa: B023
                if num == "1":
                    self.end(numbers[0], is_counted=way != "idle")
        assert list(TaskRun.objects.values_list("outcome", flat=True)) == [RunOutcome.DONE] * 2
        assert numbers[0] != numbers[1]

    def end(self, number: int, is_counted: bool) -> None:
        """End the connection with this number; one of another thread may have been found dead before."""
        sql = {"mysql": "KILL %d"}.get(connection.vendor, "SELECT pg_terminate_backend(%d)")
        with connection.cursor() as cursor:
            cursor.execute(sql % number)
        if is_counted:
            in_thread(self.lose_one)

    def lose_one(self) -> None:
        with kept_connections.of_thread("default"):
            losses = kept_connections.losses
            with pytest.raises(OperationalError):
                in_one_statement("default", lambda cursor: cursor.execute(BREAK[connection.vendor]))
            assert kept_connections.losses > losses

    def test_that_others_have_lost_is_looked_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Even where no connection may write, as while a server is read-only: else all would open new ones for ever."""

        def look() -> None:
            with kept_connections.of_thread("default") as own:
                own.connection.ensure_connection()
                sessions = [own.connection.connection]
                monkeypatch.setattr(kept_connections, "losses", kept_connections.losses + 1)
                for _ in range(3):
                    losses = kept_connections.losses
                    own.refresh(was_idle=False)
                    assert kept_connections.losses == losses
                    own.connection.ensure_connection()
                    sessions.append(own.connection.connection)
                assert [session is sessions[-1] for session in sessions] == [False, True, True, True]

        monkeypatch.setattr(kept_connections, "access_to", lambda *_: kept_connections.Access.READ)
        in_thread(look)

    def test_that_a_handler_has_closed_itself_costs_no_other_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The driver of MariaDB and MySQL refuses to close it once more."""
        monkeypatch.setattr(crew, "IDLE", -1.0)
        handler_of(lambda task: close_the_drivers_connection())
        with executing(threads=1) as executor:
            for number in range(3):
                add(str(number))
                wait_until(lambda: not Task.objects.exists())
            wait_until(lambda: len(executor.held) == 0)  # it learns of the settlement after the commit
        assert set(TaskRun.objects.values_list("attempt", "outcome")) == {(1, RunOutcome.DONE)}


def test_one_that_breaks_in_the_thread_of_the_watchdog_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """There ``backoff`` is called for a run that hangs, as a call of its own."""
    hangs: list[int] = []
    given_up = [Event(), Event()]
    answered: list[int] = []

    def handle(task: Any) -> None:
        if task.attempts <= len(given_up):
            hangs.append(task.attempts)
            given_up[task.attempts - 1].wait(60)

    def wait(self: TaskHandler, attempt: int) -> timedelta:
        hangs.remove(attempt)
        given_up[attempt - 1].set()
        assert not Executor.objects.filter(id=-1).exists()
        answered.append(attempt)
        close_the_drivers_connection()
        return timedelta()

    monkeypatch.setattr(watchdog, "is_overdue", lambda running: running.all_tasks[0].attempts in hangs)
    handler_of(handle, timeout=60, max_attempts=3, backoff=wait)
    add()
    with executing(threads=1):
        wait_until(lambda: TaskRun.objects.filter(outcome=RunOutcome.DONE).exists())
    assert answered == [1, 2]


class TestDebug:
    """With ``DEBUG``, Django remembers the statements of a connection; a web process forgets them at each request."""

    @pytest.fixture(autouse=True)
    def _debug(self) -> Iterator[None]:
        with override_settings(DEBUG=True):
            yield

    def test_a_run_finds_its_own_statements_only(self) -> None:
        counts: list[int] = []

        def handle(task: Any) -> None:
            Task.objects.exists()
            counts.append(len(connection.queries))

        async def ahandle(task: Any) -> None:
            await sync_to_async(handle)(task)

        handler_of(handle)
        async_handler_of(ahandle, "async")
        for number in range(5):
            add(str(number))
            add(str(number), "async")
        with executing(drain=True, threads=1) as executor:
            assert executor.drained.wait(60)
        assert sorted(counts)[:8] == [1] * 8, "all but the first of each thread, which has connected"
        assert max(counts) < 5

    def test_no_thread_of_an_executor_remembers_any_after_its_work(self) -> None:
        handler_of(lambda task: Task.objects.exists() and None)
        with executing(), mutex("held"):
            for number in range(10):
                add(str(number))
            wait_until(lambda: not Task.objects.exists())
            wait_until(lambda: not any(one.queries_log for one in self.of_all_threads()))
            assert any(one.connection for one in self.of_all_threads())

    def of_all_threads(self) -> list[Any]:
        return [one for found in list(kept_connections._kept.values()) for one in found]
