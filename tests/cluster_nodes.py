"""Fixtures for tests on a cluster. One alias for each node: "default" is the first, then "node2" and "node3".

All have the same database. The alias "moving" has several hosts.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import OperationalError, connections, transaction
from django.db.backends.base.operations import BaseDatabaseOperations

from django_delayed_tasks.backends.galera import base
from django_delayed_tasks.models import Overview
from django_delayed_tasks.store.sql.transactions import TRIES, is_transient, pause
from harness.database_urls import parse
from tests.processes.waiting import wait_until
from tests.threads import DatabaseThread, start_thread

T = TypeVar("T")
NODES = ("default", "node2", "node3")
MOVING = "moving"


def on_all_nodes(item: pytest.Item) -> None:
    """Have a test commit, on all nodes."""
    ours = pytest.mark.django_db(transaction=True, available_apps=["django_delayed_tasks"], databases=[*NODES, MOVING])
    item.add_marker(ours)


def _entry(number: int, **options: Any) -> dict[str, Any]:
    usual = connections.settings["default"]
    url = os.environ[f"DATABASE_URL_{settings.DDT_DATABASE.upper()}_{number}"]
    entry = {**usual, **parse(url), "NAME": usual["NAME"]}
    # What one node has, all have: Django is to empty the first one's tables only.
    return {**entry, "OPTIONS": {**usual["OPTIONS"], **options}, "TEST": {**usual["TEST"], "MIRROR": "default"}}


@pytest.fixture(scope="session", autouse=True)
def aliases(django_db_setup: None) -> Iterator[None]:
    hosts = [f"{entry['HOST']}:{entry['PORT']}" for entry in map(_entry, (2, 3, 1))]
    connections.settings["node2"], connections.settings["node3"] = _entry(2), _entry(3)
    connections.settings[MOVING] = {**_entry(2, hosts=hosts), "ENGINE": "django_delayed_tasks.backends.galera"}
    yield
    for alias in (*NODES[1:], MOVING):
        connections.settings.pop(alias, None)  # the fixture is that of each folder which imports it


@pytest.fixture(scope="session", autouse=True)
def emptied_again_if_refused() -> Iterator[None]:
    """A cluster may refuse to empty the tables while the node still applies what the test has written to another."""
    usual = BaseDatabaseOperations.execute_sql_flush

    def execute_sql_flush(self: BaseDatabaseOperations, sql_list: list[str]) -> None:
        for attempt in range(TRIES):
            try:
                usual(self, sql_list)
            except OperationalError as error:
                if attempt + 1 == TRIES or not is_transient(error):
                    raise
                time.sleep(pause(attempt))
            else:
                return

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseDatabaseOperations, "execute_sql_flush", execute_sql_flush)
        yield


@pytest.fixture
def nodes(transactional_db: None) -> Iterator[tuple[str, ...]]:
    """The aliases of the nodes; their connections are closed afterwards."""
    for alias in NODES:
        connections[alias].ensure_connection()
    yield NODES
    for alias in NODES:
        connections[alias].close()


@pytest.fixture
def moving(nodes: tuple[str, ...]) -> Iterator[str]:
    """An alias with several hosts: the second node, then the third, then the first. None has failed lately."""
    base._failed_at.clear()
    options = connections[MOVING].settings_dict["OPTIONS"]
    usual = dict(options)
    yield MOVING
    connections[MOVING].close()
    options.update(usual)


Asking = Callable[[Callable[[], T]], DatabaseThread[T]]


@contextmanager
def behind(alias: str) -> Iterator[Asking[Any]]:
    """Have a node not apply what is `held_back`, nor what the others commit afterwards, until the block ends.

    What is yielded starts a function in a thread, and returns when that has ended or a statement of it waits there.
    """
    with closing(connections.create_connection(alias)) as lock, lock.cursor() as cursor:
        cursor.execute("LOCK TABLES django_delayed_tasks_overview WRITE")

        def start(function: Callable[[], T]) -> DatabaseThread[T]:
            thread = start_thread(function)
            seen = [statements_at_work(cursor)]

            def waits() -> bool:
                seen.append(statements_at_work(cursor))
                return not thread.is_alive() or bool(seen[-1] & seen[-2])

            wait_until(waits)
            return thread

        yield start


@contextmanager
def held_back() -> Iterator[None]:
    """Begin a transaction with a row of the table that `behind` has locked.

    A node has written nothing of the transaction then, while one after it may wait for its turn with its rows locked.
    """
    with transaction.atomic():
        add_overview()
        yield


def add_overview() -> None:
    """Add a row to the table that `behind` has locked."""
    Overview.objects.create(name=uuid4().hex, taken_at=datetime.now(UTC), data={})


def statements_at_work(cursor: Any) -> set[tuple[int, str]]:
    """Return the statements of other sessions that the node executes, each with the session's number."""
    cursor.execute("SELECT connection_id()")
    [(own,)] = cursor.fetchall()
    cursor.execute("SHOW FULL PROCESSLIST")
    return {
        (number, sql) for number, user, _, _, command, _, _, sql, *_ in cursor.fetchall()
        if command == "Query" and user == connections["default"].settings_dict["USER"] and number != own
    }  # fmt: skip
