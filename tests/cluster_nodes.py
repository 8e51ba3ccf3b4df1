"""Fixtures for tests on a cluster. One alias for each node: "default" is the first, then "node2" and "node3".

All have the same database. The alias "moving" has several hosts.
"""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import OperationalError, connections
from django.db.backends.base.operations import BaseDatabaseOperations

from django_delayed_tasks import api
from django_delayed_tasks.backends.galera import base
from django_delayed_tasks.store.sql.transactions import TRIES, is_transient, pause
from harness.database_urls import parse
from tests.store import verbs

ROWS = 10_000
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


@pytest.fixture
def busy() -> Callable[[], None]:
    """Commit on the first node what keeps the others busy for a while: they are behind then."""

    def add() -> None:
        name = uuid4().hex
        api.add_tasks((verbs.task(f"{name}-{row}", when=verbs.HOUR) for row in range(ROWS)), batch_size=ROWS)

    return add
