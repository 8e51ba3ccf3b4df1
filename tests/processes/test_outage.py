"""The database is gone for a while, in mid-work."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from django_delayed_tasks.api import add_task
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import RunOutcome
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import is_settled, outcomes
from tests.processes.folder import Folder, Gate
from tests.processes.outages import Outage, private_database
from tests.processes.probing import free_port, get
from tests.processes.waiting import wait_until

pytestmark = pytest.mark.per_database


@pytest.fixture
def outage(database: str, tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[Outage]:
    """A database that the test can take away; the usual test database is not touched."""
    with django_db_blocker.unblock(), private_database(database, tmp_path) as outage:
        yield outage


@pytest.fixture
def process_environment(outage: Outage, database: str) -> dict[str, str]:
    """Return the usual environment, with the database of the outage."""
    url = {f"DATABASE_URL_{database.upper()}": outage.url}
    return {**os.environ, "DDT_DATABASE": database, **url, **outage.environment}


def test_executors_carry_on_and_what_ended_meanwhile_is_not_run_again(
    outage: Outage, starttask: Start, folder: Folder
) -> None:
    port = free_port()
    ways = (("--name", "one", "--metrics-port", str(port)), ("--name", "two"))
    children = [starttask(*way, "--threads", "1").wait_until_ready() for way in ways]
    gates = stand_still(folder, children, "a")

    outage.begin()
    gates[0].open()
    (ended,) = wait_until(lambda: folder.notes("ended"))
    struck = next(child for child in children if child.pid == ended.pid)
    struck.wait_for("settler backs off")
    for child in children:
        child.wait_for("heartbeat failed")
    answer = get(port, "/metrics")  # it is answered all the same
    assert answer.code == 200
    assert {"delayed_tasks_database_up 0.0", "delayed_tasks_threads 1.0"} <= set(answer.body.splitlines())
    outage.end()

    wait_until(lambda: is_settled("held", ended.num))
    gates[1].open()
    wait_until(lambda: not Task.objects.exists())
    stand_still(folder, children, "b")  # both claim and run as before
    folder.open_all()
    wait_until(lambda: not Task.objects.exists())
    for number in ("a1", "a2", "b1", "b2"):
        assert len(folder.notes("started", number)) == 1, f"{number} ran again"
        assert outcomes("held", number) == [RunOutcome.DONE]
    for child in children:
        child.send(signal.SIGTERM)
        assert child.exit_code() == 0


def stand_still(folder: Folder, children: list[Child], name: str) -> list[Gate]:
    """Wait until each executor, with its one thread, is in mid-handler."""
    gates = []
    numbers = [f"{name}{number}" for number in range(1, len(children) + 1)]
    for number in numbers:
        gates.append(folder.shut(number))
        add_task(Task(biz_code="held", biz_num=number))
    wait_until(lambda: all(folder.notes("started", number) for number in numbers))
    assert {folder.notes("started", number)[0].pid for number in numbers} == {child.pid for child in children}
    return gates
