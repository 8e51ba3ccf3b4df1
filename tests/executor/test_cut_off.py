"""A stop cuts off runs: their tasks are given back, whoever comes first, and whatever is locked meanwhile."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.models import Executor as Row
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import ExecutorStatus, NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.schedules.verbs import cancel
from django_delayed_tasks.store.settling.reap import reap
from tests.executor.atomic_runs import effects, write
from tests.executor.parts import add, executing, handler_of
from tests.threads import start_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]

NAME = "cut off: its executor was stopped (executing)"


class Run:
    """A run that lasts until :attr:`may_end`, whatever is done to it."""

    def __init__(self, within: Callable[[], None] = lambda: None, **attributes: Any) -> None:
        self.has_begun, self.may_end = Event(), Event()
        self.error: BaseException | None = None

        def handle(task: Any) -> None:
            try:
                within()
                self.has_begun.set()
                assert self.may_end.wait(60)
                within()
            except BaseException as error:
                self.error = error
                raise

        handler_of(handle, **attributes)
        add()


@contextmanager
def running(run: Run) -> Iterator[Executor]:
    with executing() as executor:
        try:
            assert run.has_begun.wait(30)
            yield executor
        finally:
            run.may_end.set()


def is_given_back() -> bool:
    task = Task.objects.get()
    values = (task.status, task.version, task.attempts, task.rescues, task.last_error)
    return values == (TaskStatus.PENDING, 2, 0, 0, "")


def stop(executor: Executor) -> None:
    """Stop without waiting for runs, up to the last act of its heartbeat."""
    assert not executor.stop(0.0)
    wait_until(lambda: not executor._beating.is_alive)


def test_another_executor_reaps_between_the_two_writes_of_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[NextState] = []
    with running(Run()) as executor:
        end = executor.lease.end

        def end_and_let_another_reap() -> None:
            end()
            became.extend(start_thread(lambda: reap("default", 3)).result().values())

        monkeypatch.setattr(executor.lease, "end", end_and_let_another_reap)
        stop(executor)
    assert became == [NextState.RELEASED]
    assert is_given_back()
    run = TaskRun.objects.get()
    assert (run.outcome, run.error, run.executor) == (RunOutcome.LOST, NAME, executor.lease.executor)


@pytest.mark.skipif(connection.vendor == "sqlite", reason="the database has no row locks")
def test_its_row_is_locked_throughout_the_stop() -> None:
    with running(Run()) as executor:
        with transaction.atomic():
            Task.objects.select_for_update().get()
            stop(executor)
        assert Task.objects.get().status == TaskStatus.RUNNING
    assert list(reap("default", 3).values()) == [NextState.RELEASED]
    assert is_given_back()
    assert TaskRun.objects.get().error == NAME


def test_the_lease_runs_out_during_the_stop() -> None:
    """The process was killed because the stop took too long."""
    with running(Run()) as executor:
        own = executor.lease.executor
        stopping = start_thread(lambda: executor.stop(30.0))
        wait_until(lambda: Row.objects.get().status == ExecutorStatus.STOPPING)
        with transaction.atomic():  # at once: the heartbeat goes on
            Row.objects.filter(pk=own).update(expires_at="2000-01-01T00:00Z")
            assert list(reap("default", 3).values()) == [NextState.RELEASED]
        assert is_given_back()
        executor.held.drop(executor.held.tasks())
    stopping.result()
    assert TaskRun.objects.get().error == NAME


def test_a_cancellation_is_obeyed() -> None:
    with running(Run()) as executor:
        cancel("default", "code", "1")
        stop(executor)
    assert not Task.objects.exists()
    assert TaskRun.objects.get().outcome == RunOutcome.CANCELLED


def test_a_schedule_that_came_during_the_run_counts() -> None:
    with running(Run()) as executor:
        add(biz_ext="new")
        stop(executor)
    task = Task.objects.get()
    assert (task.status, task.biz_ext, task.rescues) == (TaskStatus.PENDING, "new", 0)
    assert TaskRun.objects.get().error == NAME


def some_write() -> None:
    write()


def rows_left_unread() -> None:
    """A write, and a cursor that is not read to its end."""
    write()
    cursor = connection.cursor()
    cursor.execute("SELECT 1 UNION SELECT 2 UNION SELECT 3")
    cursor.fetchone()
    unread.append(cursor)


unread: list[Any] = []


@pytest.mark.parametrize("within", [some_write, rows_left_unread])
def test_the_transaction_of_an_atomic_run_is_ended(within: Callable[[], None]) -> None:
    """On SQLite it would keep all others from writing: nothing could be given back before the process has ended."""
    run = Run(within, atomic=True)
    with running(run) as executor:
        stop(executor)
        assert is_given_back()
        run.may_end.set()
        wait_until(lambda: not executor.workers.busy())
    unread.clear()
    assert effects() == []
    assert is_given_back()


@pytest.mark.skipif(connection.vendor != "sqlite", reason="elsewhere nothing is blocked by it")
def test_so_is_one_in_the_midst_of_a_statement() -> None:
    begun = Event()
    statement = (
        "WITH RECURSIVE n(i, x) AS (SELECT 1, begin_now() UNION ALL SELECT i + 1, 1 FROM n WHERE i < 1e9)"
        " SELECT COUNT(*) FROM n"
    )

    def execute() -> None:
        write()
        if not begun.is_set():
            connection.connection.create_function("begin_now", 0, begun.set)
            with connection.cursor() as cursor, suppress(OperationalError):  # it may seem to have ended well
                cursor.execute(statement)

    run = Run(execute, atomic=True)
    with executing() as executor:
        assert begun.wait(30)
        stop(executor)
        assert is_given_back()
        run.may_end.set()
        wait_until(lambda: not executor.workers.busy())
    assert run.error
    assert effects() == []
    assert is_given_back()
