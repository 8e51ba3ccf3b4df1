"""A node that has lost its cluster, and who was connected to it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connections
from django.test import override_settings

from django_delayed_tasks import api
from django_delayed_tasks.backends.galera import base
from django_delayed_tasks.models import Executor
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.sql import transactions
from django_delayed_tasks.store.sql.kept_connections import discard_unusable
from tests.complaints import numbers
from tests.processes.database import database_now
from tests.processes.waiting import wait_until
from tests.store import verbs
from tests.threads import start_thread


def ask(alias: str, sql: str) -> Any:
    with connections[alias].cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()


def node_of(alias: str) -> str:
    return str(ask(alias, "SELECT @@wsrep_node_name")[0])


def has_status(alias: str, name: str, value: str) -> bool:
    return bool(ask(alias, f"SHOW GLOBAL STATUS LIKE 'wsrep_{name}'")[1] == value)


@contextmanager
def isolated(alias: str) -> Iterator[None]:
    """Cut this node off from the others and wait until it has noticed; let it join them again afterwards."""
    ask_for = "SET GLOBAL wsrep_provider_options = 'gmcast.isolate={}'"
    with connections[alias].cursor() as cursor:
        cursor.execute(ask_for.format(1))
    try:
        wait_until(lambda: has_status(alias, "ready", "OFF"))
        wait_until(lambda: has_status("default", "cluster_size", "2"))
        yield
    finally:
        with connections[alias].cursor() as cursor:
            cursor.execute(ask_for.format(0))
        wait_until(lambda: has_status(alias, "ready", "ON"))
        wait_until(lambda: has_status("default", "cluster_size", "3"))


may_look = Event()


def worker(alias: str) -> tuple[str, str]:
    """Be idle while the node goes away, and check the connection before the next run; return the nodes used."""
    before = node_of(alias)
    may_look.wait(60)
    discard_unusable(connections[alias])
    return before, node_of(alias)


def test_the_next_host_is_taken(nodes: tuple[str, ...], moving: str) -> None:
    """A connection whose node is not ready moves to another node, if there is one."""
    verbs.add()
    transactions.catch_up("node3")
    assert node_of(moving) == "node2"
    idle = start_thread(lambda: worker(moving))
    with isolated("node2"):
        may_look.set()
        assert idle.result() == ("node2", "node3")
        assert not connections[moving].is_usable()
        assert len(read_agenda(moving).levels) == 1
        assert node_of(moving) == "node3"
        assert connections[moving].is_usable()
        with pytest.raises(OperationalError, match="WSREP"):
            read_agenda("node2")
        api.cancel_task(verbs.CODE, "1", using=moving)
    transactions.catch_up("node2")
    assert read_agenda("node2").levels == ()


def test_hosts_that_failed_come_last(nodes: tuple[str, ...], moving: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection: Any = connections[moving]
    second, third, first = connection.hosts()
    monkeypatch.setitem(base._failed_at, second, float("inf"))
    assert connection.hosts() == [third, first, second]
    assert node_of(moving) == "node3"


def test_no_node_is_there(nodes: tuple[str, ...], moving: str) -> None:
    connections[moving].settings_dict["OPTIONS"]["hosts"] = ["127.0.0.1:1", "[::1]:2"]
    with pytest.raises(OperationalError, match=r"no host can be used: 127.0.0.1:1: .*::1:2: "):
        connections[moving].ensure_connection()


@pytest.mark.parametrize("hosts", ["db1", [1], [""], ["db1:x"]])
def test_hosts_that_are_none(nodes: tuple[str, ...], moving: str, hosts: Any) -> None:
    connections[moving].settings_dict["OPTIONS"]["hosts"] = hosts
    connection: Any = connections[moving]
    with pytest.raises(ImproperlyConfigured, match="hosts"):
        connection.hosts()


@pytest.mark.parametrize(("claim", "expected"), [("auto", ["W014"]), ("skip_locked", ["E016", "W014"])])
def test_checks(nodes: tuple[str, ...], claim: str, expected: list[str]) -> None:
    with override_settings(DELAYED_TASKS={"CLAIM": claim}):
        assert numbers(["default"]) == expected


def test_nodes_with_different_clocks(nodes: tuple[str, ...], heartbeat_ahead: Callable[[int], None]) -> None:
    heartbeat_ahead(0)
    assert numbers(["default"]) == ["W014"]
    heartbeat_ahead(30)
    assert numbers(["default"]) == ["W014", "W016"]


@pytest.fixture
def heartbeat_ahead() -> Callable[[int], None]:
    """Return a function that adds an executor whose node's clock is ahead of the first one's, in seconds."""

    def write(seconds: int) -> None:
        now = database_now()
        ahead = now + timedelta(seconds=seconds)
        Executor.objects.all().delete()
        Executor.objects.create(
            name="far", host="h", pid=1, threads=1, codes=[], queues=None, started_at=now, heartbeat_at=ahead,
            expires_at=ahead, alive=True,
        )  # fmt: skip

    return write
