"""After a failover the sessions with the old primary answer, but can write no more: none of them is kept."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import pytest
from django.db import DatabaseError, OperationalError, connection, connections, transaction

from django_delayed_tasks.api import add_tasks, cancel_task, delete_tasks, pause_queue, reschedule_task
from django_delayed_tasks.executor import health
from django_delayed_tasks.executor.claiming import listener
from django_delayed_tasks.executor.membership.lease import Heartbeat, Lease
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.settling import settler
from django_delayed_tasks.leases import mutex
from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.store.sql.dialects import Dialect, dialect_of
from tests.executor.atomic_runs import EFFECT
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, executing, handler_of
from tests.failovers import Failover, SplitReads, failing_over, make_read_only
from tests.threads import in_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]


@pytest.fixture
def failover() -> Iterator[Failover]:
    with failing_over() as failover:
        yield failover


def write(task: Any) -> None:
    Executor.objects.filter(id=-1).update(name="x")


async def awrite(task: Any) -> None:
    await Executor.objects.filter(id=-1).aupdate(name="x")


class TestExecutor:
    @pytest.mark.parametrize("way", ["plain", "atomic", "async", "limited"])
    def test_runs_tasks_again_and_no_attempt_is_lost(self, failover: Failover, way: str) -> None:
        """Each thread gives its connection up before its next run, without having written through it since."""
        if way == "async":
            async_handler_of(awrite, max_attempts=1)
        else:
            handler_of(write, max_attempts=1, atomic=way == "atomic", max_concurrent=1 if way == "limited" else None)
        with executing(threads=4) as executor:
            self.add_four("a")
            failover.demote()
            self.add_four("b")
            assert executor.lease.refused_for == 0.0
        assert set(TaskRun.objects.values_list("attempt", "outcome")) == {(1, RunOutcome.DONE)}

    def add_four(self, name: str) -> None:
        before = TaskRun.objects.count()
        connection.close()
        for number in range(4):
            add(f"{name}{number}")
        wait_until(lambda: TaskRun.objects.count() == before + 4)

    def test_settles_what_ended_meanwhile(self, failover: Failover) -> None:
        handler_of(lambda task: failover.demote(), max_attempts=1)
        add()
        with executing():
            wait_until(lambda: not Task.objects.exists())
        assert TaskRun.objects.get().outcome == RunOutcome.DONE

    def test_settles_it_after_new_sessions_could_write_no_more_than_old_ones(
        self, failover: Failover, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However often it has tried: that no run has failed is known only here."""
        refused: list[BaseException] = []

        def failed(own: settler.Settler, error: BaseException) -> float:
            refused.append(error)
            failover.is_lasting = len(refused) < 3 * settler.MAX_BREAKS
            usually_failed(own, error)
            return 0.0

        usually_failed = settler.Settler._failed
        usual = settler.Settler.write

        def write(own: settler.Settler, batch: Any) -> Any:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")  # on MariaDB and MySQL, a transaction that has begun would be spared
            return usual(own, batch)

        monkeypatch.setattr(settler.Settler, "_failed", failed)
        monkeypatch.setattr(settler.Settler, "write", write)
        handler_of(lambda task: setattr(failover, "is_lasting", True), max_attempts=1)
        add()
        with executing():
            wait_until(lambda: not Task.objects.exists())
        assert TaskRun.objects.get().outcome == RunOutcome.DONE
        assert len(refused) == 3 * settler.MAX_BREAKS

    def test_renews_its_lease(self, failover: Failover) -> None:
        def beat_twice() -> list[float]:
            failover.demote()
            return [heartbeat.beat(), heartbeat.beat()]

        options = ExecutorOptions(name="failing over")
        lease = Lease(options)
        heartbeat = Heartbeat(options, lease, Event())
        lease.acquire()
        assert beat_twice() == [1.0, options.heartbeat]
        assert lease.refused_for == 0.0
        lease.end()

    @pytest.mark.skipif(connection.vendor == "sqlite", reason="its notices travel in a file")
    def test_listens_to_the_new_primary(self, failover: Failover, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listener, "LOOK_EVERY", 0.01)
        with executing() as executor:
            assert executor._listening
            ear = executor._listening._listener
            wait_until(lambda: ear._subscription)
            first = ear._subscription
            failover.demote()
            wait_until(lambda: ear._subscription not in (None, first), timeout=20)

    def test_that_lasts_ends_its_process_to_be_started_again(
        self, failover: Failover, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The name of the database may lead elsewhere by then. An outage, which a restart would not end, does not."""
        monkeypatch.setattr(health, "MAX_CALL", 0.3)
        with executing(lease=0.1, heartbeat=0.01) as executor:
            assert executor.health.is_live
            failover.is_lasting = True
            assert executor.worn_out.wait(30)
            assert not executor.health.is_live
            failover.is_lasting = False

    def test_that_lasts_does_not_end_a_process_that_has_runs_to_settle(
        self, failover: Failover, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They would be run again. It ends in the end: their tasks may have been taken by others long ago."""
        monkeypatch.setattr(health, "MAX_CALL", 0.1)
        may_end = Event()

        def fail_over(task: Any) -> None:
            failover.is_lasting = True
            may_end.wait(30)

        handler_of(fail_over, max_attempts=1)
        with executing(lease=0.1, heartbeat=0.01) as executor:
            add("1")
            wait_until(lambda: executor.lease.refused_for > 0.6)
            assert executor.health.is_live
            failover.is_lasting = False
            may_end.set()
            connection.close()
            wait_until(lambda: not Task.objects.exists())
            may_end.clear()
            monkeypatch.setattr(health, "PATIENCE", 2)
            add("2")
            assert executor.worn_out.wait(30)
            failover.is_lasting = False
            may_end.set()
        assert TaskRun.objects.get(biz_num="1").outcome == RunOutcome.DONE


class TestCaller:
    VERBS: ClassVar[dict[str, Callable[[], Any]]] = {
        "add": lambda: add("2"),
        "add many": lambda: add_tasks([Task(biz_code="code", biz_num=str(number)) for number in range(3)]),
        "cancel": lambda: cancel_task("code", "1"),
        "reschedule": lambda: reschedule_task("code", "1", timedelta(hours=1)),
        "delete": lambda: delete_tasks("code", "1"),
        "pause": lambda: pause_queue("default"),
    }

    @pytest.mark.parametrize("verb", VERBS)
    def test_is_told_once(self, failover: Failover, verb: str) -> None:
        add("1")
        failover.demote()
        with pytest.raises(DatabaseError):
            self.VERBS[verb]()
        self.VERBS[verb]()

    @pytest.mark.skipif(connection.vendor != "postgresql", reason="Django has no pool for others")
    def test_with_a_pool_is_told_once(self, failover: Failover) -> None:
        """The pool would lend the session that it gets back again."""
        usual = connection.settings_dict
        connection.close()
        pool = {"min_size": 1, "max_size": 1}
        connection.settings_dict = {**usual, "OPTIONS": {**usual["OPTIONS"], "pool": pool}}
        try:
            add("1")
            failover.demote()
            with pytest.raises(DatabaseError):
                add("2")
            add("3")
        finally:
            connection.close()
            connection.close_pool()  # type: ignore[attr-defined]
            connection.settings_dict = usual

    def test_whose_first_connection_is_refused_gets_another_one(self, failover: Failover) -> None:
        failover.is_lasting = True
        with pytest.raises(DatabaseError):
            add()
        failover.is_lasting = False
        add()

    def test_keeps_the_connection_of_its_transaction(self, failover: Failover) -> None:
        """What has been written in it would be lost in silence."""
        connection.ensure_connection()
        with transaction.atomic():
            session = connection.connection
            make_read_only(connection)
            make_read_only(connection)
            with suppress(DatabaseError):  # MariaDB and MySQL spare the transaction
                add()
            assert connection.connection is session
            transaction.set_rollback(True)

    def test_of_a_lease_notices_nothing(self, failover: Failover) -> None:
        with mutex("index") as lease:
            failover.demote()
            lease.check()
            failover.demote()
            lease.state = {"at": 1}
            failover.demote()
        with mutex("index") as lease:
            assert lease.state == {"at": 1}


class TestSession:
    """Only a session that can write is one that works."""

    def test_that_is_read_only_is_given_up(self) -> None:
        def lose() -> tuple[bool, bool]:
            connection.ensure_connection()
            make_read_only(connection)
            discard = partial(kept_connections.discard_unusable, connections["default"])
            return discard(), discard()

        assert in_thread(lose) == (True, False)

    def test_that_refuses_the_question_can_still_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server that was demoted, MariaDB for one, refuses to begin a transaction that writes."""

        def refuse(dialect: Dialect) -> bool:
            raise OperationalError(1290, "The MariaDB server is running with the --read-only option")

        def ask() -> kept_connections.Access:
            return kept_connections.access_to(connection)

        monkeypatch.setattr(type(dialect_of(connections["default"])), "accepts_writes", refuse)
        assert in_thread(ask) is kept_connections.Access.READ

    def test_that_can_write_is_kept_after_an_error(self) -> None:
        def err() -> bool:
            with suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute("SELECT no_such_column")
            session = connection.connection
            return kept_connections.discard_unusable(connections["default"]) or connection.connection is not session

        assert in_thread(err) is False

    @pytest.mark.skipif(connection.vendor == "sqlite", reason="a file")
    def test_is_asked_for_on_the_primary_where_reads_are_split_off(self) -> None:
        """Behind MaxScale, ProxySQL or pgpool, what only reads goes to replicas."""

        def ask() -> tuple[bool, bool]:
            connection.ensure_connection()
            with connection.execute_wrapper(SplitReads()):
                is_kept = kept_connections.access_to(connection) is kept_connections.Access.WRITE
                make_read_only(connection)
                return is_kept, kept_connections.access_to(connection) is kept_connections.Access.WRITE

        assert in_thread(ask) == (True, False)

    @pytest.mark.skipif(connection.vendor != "mysql", reason="elsewhere, the sessions of a dropped database are ended")
    def test_whose_database_was_dropped_is_given_up(self) -> None:
        """It has none from then on, even if there is one of that name again, as after a restore."""

        def lose() -> bool:
            with connection.cursor() as cursor:
                cursor.execute("CREATE DATABASE test_ddt_dropped")
                cursor.execute("USE test_ddt_dropped")
                cursor.execute("DROP DATABASE test_ddt_dropped")
            return kept_connections.discard_unusable(connections["default"])

        assert in_thread(lose)

    @pytest.mark.skipif(connection.vendor != "sqlite", reason="the file of SQLite")
    def test_whose_file_was_replaced_is_given_up(self, tmp_path: Path) -> None:
        """As when a backup is restored."""

        def lose() -> tuple[bool, bool]:
            wrapper = connections.create_connection("default")
            wrapper.settings_dict = {**wrapper.settings_dict, "NAME": tmp_path / "ours", "OPTIONS": {}}
            with wrapper.cursor() as cursor:
                cursor.execute("CREATE TABLE t (x)")
            before = kept_connections.access_to(wrapper) is kept_connections.Access.WRITE
            (tmp_path / "other").touch()
            (tmp_path / "other").replace(tmp_path / "ours")
            after = kept_connections.access_to(wrapper) is kept_connections.Access.WRITE
            wrapper.close()
            return before, after

        assert in_thread(lose) == (True, False)

    @pytest.mark.skipif(connection.vendor != "sqlite", reason="the file of SQLite")
    def test_that_waits_for_another_writer_is_kept(self) -> None:
        def is_kept() -> bool:
            connection.ensure_connection()
            return kept_connections.access_to(connection) is kept_connections.Access.WRITE

        with transaction.atomic():
            Executor.objects.create(name="effect", **EFFECT)
            assert in_thread(is_kept)
