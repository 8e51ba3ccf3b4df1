"""A database that has no free connection for the threads that run tasks, while the executor's own ones live."""

import logging
from collections.abc import Iterator
from threading import Event, current_thread
from typing import Any

import pytest
from django.db import OperationalError, connection, connections

from django_delayed_tasks import Fail
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.process.probes import ProbedExecutor
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import Executor as Row
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.executor.batches import batched
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, executing, handler_of
from tests.leases import rows
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]

NOWHERE = {"sqlite": {"database": "/no/such/folder/file"}}
"""Where no connection can be opened; on servers, a port at which none listens."""


class Famine:
    """Lets no connection be opened by the threads with these names, until it is over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: tuple[str, ...] = ("worker", "coroutines")
        self.is_over = Event()
        self.failures = 0
        wrapper_class: Any = type(connections["default"])
        usual = wrapper_class.get_connection_params

        def get_connection_params(wrapper: Any) -> Any:
            parameters = usual(wrapper)
            if not self.is_over.is_set() and current_thread().name.startswith(self.names):
                self.failures += 1
                return {**parameters, **NOWHERE.get(wrapper.vendor, {"port": 1})}
            return parameters

        monkeypatch.setattr(wrapper_class, "get_connection_params", get_connection_params)


@pytest.fixture
def famine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Famine]:
    famine = Famine(monkeypatch)
    yield famine
    famine.is_over.set()


def query(task: Any) -> None:
    Row.objects.filter(id=-1).exists()


async def aquery(task: Any) -> None:
    await Row.objects.filter(id=-1).aexists()


def are_released() -> bool:
    return not Task.objects.exclude(status=TaskStatus.PENDING, attempts=0).exists()


def all_wait(executor: Executor, way: str) -> bool:
    capacity = executor.capacity
    return capacity.is_loop_unconnected if way == "async" else capacity.unconnected == executor.options.threads


@pytest.mark.parametrize("way", ["plain", "atomic", "batch", "limited", "async"])
def test_a_run_that_cannot_connect_has_not_started(famine: Famine, caplog: pytest.LogCaptureFixture, way: str) -> None:
    """Its attempt does not count, nothing is claimed in vain, and the log says it once, however many wait."""
    if way == "async":
        async_handler_of(aquery, max_attempts=1)
    elif way == "batch":
        batched(lambda tasks: query(tasks[0]), max_attempts=1)
    else:
        handler_of(query, max_attempts=1, atomic=way == "atomic", max_concurrent=3 if way == "limited" else None)
    for number in range(20):
        add(str(number))
    with executing(threads=3) as executor, caplog.at_level(logging.WARNING):
        wait_until(lambda: all_wait(executor, way))
        wait_until(are_released)
        room = executor.capacity.room()
        assert (room.loop if way == "async" else room.threads) == 0
        assert not TaskRun.objects.exists()
        assert ProbedExecutor(executor).status().is_ready == (way == "async"), "threads are free"
        famine.is_over.set()
        wait_until(lambda: TaskRun.objects.count() == 20)
        wait_until(lambda: not executor.capacity.unconnected)
        assert ProbedExecutor(executor).status()[:2] == (True, True)
    assert set(TaskRun.objects.values_list("attempt", "outcome")) == {(1, RunOutcome.DONE)}
    said = [record.getMessage() for record in caplog.records if "connection" in record.getMessage()]
    assert len(said) == 2
    assert "has no connection: its task is released" in said[0]
    assert said[1] == "all threads that waited for a connection continue"


def test_a_thread_that_has_a_connection_runs_what_others_cannot(famine: Famine) -> None:
    famine.names = ("worker-1",)
    handler_of(query, max_attempts=1)
    with executing(threads=2) as executor:
        for number in range(20):
            add(str(number))
        wait_until(lambda: TaskRun.objects.filter(outcome=RunOutcome.DONE).count() == 20)
        assert executor.capacity.unconnected <= 1
    assert set(TaskRun.objects.values_list("attempt", flat=True)) == {1}


def test_a_connection_that_was_lost_is_opened_before_the_next_run(famine: Famine) -> None:
    """As any other that cannot be opened."""
    famine.is_over.set()
    handler_of(lambda task: connection.close(), max_attempts=1)
    with executing(threads=1) as executor:
        add("1")
        wait_until(lambda: TaskRun.objects.count() == 1)
        famine.is_over.clear()
        add("2")
        wait_until(lambda: all_wait(executor, "plain"))
        famine.is_over.set()
        wait_until(lambda: TaskRun.objects.count() == 2)
    assert set(TaskRun.objects.values_list("attempt", "outcome")) == {(1, RunOutcome.DONE)}


@pytest.mark.parametrize("way", ["plain", "async"])
def test_the_resource_of_its_run_is_given_back(famine: Famine, way: str) -> None:
    """Once that is possible, and not only when its lease is over."""
    rows.add("one")
    if way == "async":
        async_handler_of(aquery, max_attempts=1, pool=rows.POOL)
    else:
        handler_of(query, max_attempts=1, pool=rows.POOL)
    add()
    with executing(threads=1) as executor:
        wait_until(lambda: all_wait(executor, way))
        wait_until(are_released)
        assert renewer.leases() == [], "it ends within its ttl, and others get it then, however long this lasts"
        famine.is_over.set()
        wait_until(lambda: TaskRun.objects.exists())
    assert TaskRun.objects.get().attempt == 1
    assert rows.free_names() == ["one"]


def test_an_executor_can_stop_meanwhile(famine: Famine) -> None:
    handler_of(query)
    add()
    with executing(threads=2) as executor:
        wait_until(lambda: executor.capacity.unconnected)
        assert executor.stop(timeout=10)
    assert are_released()


def test_a_failure_is_reported_when_its_hook_can_connect(famine: Famine) -> None:
    famine.names = ("failures-1",)
    told: list[str] = []

    def on_failed(self: Any, task: Any, error: str) -> None:
        query(task)
        told.append(task.biz_num)

    handler_of(lambda task: Fail("no"), on_failed=on_failed)
    add()
    with executing():
        wait_until(lambda: famine.failures > 1)
        assert not told
        famine.is_over.set()
        wait_until(lambda: told)


def test_what_fails_to_connect_in_a_run_that_has_started_counts(famine: Famine) -> None:
    """The handler may have had effects elsewhere."""

    def handle(task: Any) -> None:
        connection.close()
        famine.is_over.clear()
        try:
            query(task)
        finally:
            famine.is_over.set()

    famine.is_over.set()
    handler_of(handle, max_attempts=1)
    add()
    with executing(threads=1):
        wait_until(lambda: TaskRun.objects.exists())
    assert TaskRun.objects.get().outcome == RunOutcome.FAILED
    assert OperationalError.__name__ in TaskRun.objects.get().error


def test_claims_are_for_threads_that_have_a_connection(famine: Famine) -> None:
    """Given one thread that waits for a connection, and one that is busy; then no more is claimed in vain."""
    famine.names = ("worker-1",)
    go, begun = Event(), Event()

    def hold(task: Any) -> None:
        begun.set()
        go.wait(20)

    handler_of(hold, max_attempts=1)
    with executing(threads=2) as executor:
        for number in range(6):
            add(str(number))
        wait_until(begun.is_set)
        wait_until(lambda: executor.capacity.unconnected == 1)
        wait_until(lambda: Task.objects.filter(status=TaskStatus.RUNNING).count() == 1)
        before = dict(Task.objects.values_list("biz_num", "version"))
        for _ in range(3):
            executor.poller.poll()
        assert dict(Task.objects.values_list("biz_num", "version")) == before
        go.set()
        wait_until(lambda: TaskRun.objects.count() == 6)


def test_any_error_while_connecting_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a backend that asks for a password elsewhere."""
    wrapper_class: Any = type(connections["default"])
    usual, is_over, failed = wrapper_class.get_new_connection, Event(), Event()
    errors: list[Exception] = [OperationalError("no connection is free")]

    def get_new_connection(wrapper: Any, parameters: Any) -> Any:
        if current_thread().name.startswith("worker") and not is_over.is_set():
            if errors:
                raise errors.pop()
            failed.set()
            raise RuntimeError("no password now")
        return usual(wrapper, parameters)

    monkeypatch.setattr(wrapper_class, "get_new_connection", get_new_connection)
    handler_of(query, max_attempts=1)
    with executing(threads=1):
        add("1")
        wait_until(failed.is_set)
        is_over.set()
        wait_until(lambda: TaskRun.objects.filter(outcome=RunOutcome.DONE).count() == 1)
