"""MySQL Router before the group: Django's own engine, and a port that leads to the primary node."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from django.db import OperationalError, connections

from django_delayed_tasks import api
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import AddAction, CancelResult, NextState, RunOutcome
from django_delayed_tasks.store.notices import CannotListen, mysql, wakeup
from harness.servers.mysqlrouter import MySQLRouter, write_metadata
from tests.complaints import numbers
from tests.executor.parts import executing, handler_of
from tests.listeners import listening
from tests.store import verbs
from tests.store.notices.test_mysql import Unknown
from tests.waiting import wait_until

T = TypeVar("T")
SWITCHES = 6
WITHOUT_WRITES = 10.0
"""Seconds; Router notices a switchover within half of one."""


@contextmanager
def started(is_splitting: bool = False) -> Iterator[MySQLRouter]:
    place = connections["node2"].settings_dict
    router = MySQLRouter(f"{place['HOST']}:{place['PORT']}", is_splitting)
    router.find()
    with connections["default"].cursor() as cursor:
        write_metadata(cursor.execute)
    written = asked("default", "SELECT @@global.gtid_executed").replace("\n", "")
    assert asked("node2", f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{written}', 60)") == 0  # the router asks that node
    try:
        router.prepare()
        router.start()
        yield router
    finally:
        router.stop()


@pytest.fixture(scope="module")
def router(aliases: None, django_db_blocker: Any) -> Iterator[MySQLRouter]:
    with django_db_blocker.unblock(), started() as one:
        yield one


@pytest.fixture
def ids(nodes: tuple[str, ...]) -> Iterator[list[str]]:
    """The identities of the nodes; afterwards the first one is the primary node again."""
    found = [asked(alias, "SELECT @@server_uuid") for alias in nodes]
    yield found
    switch_over(found[0])


@contextmanager
def leading_through(router: MySQLRouter, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All connections of the alias "default" that Django opens meanwhile, in any thread."""
    connection = connections["default"]
    connection.close()
    with monkeypatch.context() as patch:
        patch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
        patch.setitem(connection.settings_dict, "PORT", str(router.port))
        yield
        connection.close()


@pytest.fixture
def through_router(ids: list[str], router: MySQLRouter, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with leading_through(router, monkeypatch):
        yield


def asked(alias: str, sql: str) -> Any:
    with connections[alias].cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def switch_over(to: str) -> None:
    asked("node2", f"SELECT group_replication_set_as_primary('{to}')")


def repeated(call: Callable[[], T]) -> T:
    """Call until there is no error of the database: what a caller is to do while no node takes writes."""
    deadline = time.monotonic() + WITHOUT_WRITES
    while True:
        try:
            return call()
        except OperationalError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def test_a_task_is_added_claimed_and_settled(through_router: None, ids: list[str]) -> None:
    assert asked("default", "SELECT @@server_uuid") == ids[0]
    assert verbs.add().action is AddAction.CREATED
    run = verbs.claim_one()
    assert list(verbs.settle(verbs.done(run)).values()) == [NextState.GONE]
    assert not Task.objects.exists()


def test_what_was_added_before_a_switchover_is_cancelled_after_it(through_router: None, ids: list[str]) -> None:
    """Calls fail until Router has noticed, and then lead to the new primary node, which may still have to apply."""
    results: Counter[CancelResult] = Counter()
    for turn in range(1, SWITCHES + 1):
        added = [verbs.task(f"{turn}-{number}", verbs.HOUR) for number in range(20)]
        for task in added:
            api.add_task(task)
        to = ids[turn % len(ids)]
        switch_over(to)
        for task in added:
            results[repeated(lambda task=task: api.cancel_task(verbs.CODE, task.biz_num))] += 1  # type: ignore[misc]
        assert asked("default", "SELECT @@server_uuid") == to
    assert results == {CancelResult.CANCELLED: 20 * SWITCHES}


def test_an_executor_continues_at_the_new_primary_node(through_router: None, ids: list[str]) -> None:
    with registry.preserved():
        handler_of(lambda task: None, code=verbs.CODE)
        with executing():
            for turn, to in enumerate((*ids[1:], ids[0])):
                verbs.add(f"{turn}-before")
                switch_over(to)
                repeated(lambda turn=turn: verbs.add(f"{turn}-after"))  # type: ignore[misc]
                wait_until(lambda: not repeated(Task.objects.exists))
    runs = Counter(api.get_runs(verbs.CODE).values_list("outcome", flat=True))
    assert runs == {RunOutcome.DONE: 2 * len(ids)}


def test_an_executor_hears_what_other_processes_add(through_router: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql, "_own", Unknown())
    monkeypatch.setattr(wakeup, "wake", lambda: None)
    ran: list[str] = []
    with registry.preserved():
        handler_of(lambda task: ran.append(task.biz_num), code=verbs.CODE)
        with executing(poll_interval=600.0):
            wait_until(listening)
            for number in ("1", "2", "3"):
                verbs.add(number)
                wait_until(lambda number=number: number in ran)  # type: ignore[misc]


def test_the_port_that_splits_reads_from_writes_is_found(
    through_router: None, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert numbers(["default"]) == []
    with started(is_splitting=True) as splitting, leading_through(splitting, monkeypatch):
        assert numbers(["default"]) == ["W026"]
        with pytest.raises(CannotListen, match="proxy"):
            mysql.Subscription("default", "executor")
