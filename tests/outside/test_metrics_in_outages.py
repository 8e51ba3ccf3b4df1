"""Metrics while the tasks' database is away: what the process has counted, and that the database cannot be read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test import RequestFactory

from django_delayed_tasks.executor import meter
from django_delayed_tasks.executor.meter import Activity
from django_delayed_tasks.metrics.pages import Prometheus
from django_delayed_tasks.metrics.views import metrics
from tests.executor.conftest import own_handlers  # noqa: F401
from tests.executor.parts import add, drain, handler_of
from tests.outside.telemetry import collected, observed  # noqa: F401

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_handlers", "observed")]

AWAY = "away"
BUSY = Activity("one", 8, 3, 0, 0, [])


@pytest.fixture
def counting() -> Iterator[None]:
    """One run has ended in this process, which counts."""
    meter.start()
    handler_of(lambda task: None)
    add()
    drain()
    yield
    meter.stop()


@pytest.fixture
def away(counting: None, tmp_path: Path, settings: Any) -> Iterator[None]:
    """The tasks' database is on a disk that is not there."""
    place = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "unplugged" / "db.sqlite3", "OPTIONS": {}}
    connections.settings[AWAY] = connections.settings["default"] | place
    connections[AWAY] = connections.create_connection(AWAY)
    del connections.settings[AWAY]  # Django lets a test use a database that is in no setting
    settings.DELAYED_TASKS = {**settings.DELAYED_TASKS, "DATABASE": AWAY}
    yield
    del connections[AWAY]


def assert_without_the_cluster(page: str) -> None:
    samples = [line for line in page.splitlines() if not line.startswith("#")]
    assert "delayed_tasks_database_up 0.0" in samples
    assert 'delayed_tasks_settled_total{code="code",outcome="done"} 1.0' in samples
    assert not [line for line in samples if line.startswith("delayed_tasks_executors")]


def test_the_view_answers(away: None) -> None:
    answer = metrics(RequestFactory().get("/metrics"))
    assert answer.status_code == 200
    assert_without_the_cluster(answer.content.decode())


def test_the_port_of_an_executor_answers(away: None, caplog: pytest.LogCaptureFixture) -> None:
    form = Prometheus(AWAY)
    page = form.with_cluster(form.of_executor(BUSY)).decode()
    assert_without_the_cluster(page)
    assert "delayed_tasks_threads_busy 3.0" in page
    [logged] = [text for text in caplog.messages if "cannot be read" in text]
    assert logged.startswith("the metrics of the cluster cannot be read: unable to open database file")


def test_opentelemetry_has_the_same(away: None, caplog: pytest.LogCaptureFixture) -> None:
    def active() -> Activity:
        return BUSY

    meter.watch(active)
    try:
        found = {name: value for (name, _), value in collected().items()}
    finally:
        meter.unwatch(active)
    assert (found["delayed_tasks_database_up"], found["delayed_tasks_threads_busy"]) == (0, 3)
    assert found["delayed_tasks_settled"] == 1
    assert "delayed_tasks_executors" not in found
    assert len([text for text in caplog.messages if "cannot be read" in text]) == 1  # one look for all metrics


def test_a_database_that_is_there_is_up() -> None:
    page = metrics(RequestFactory().get("/metrics")).content.decode()
    assert "delayed_tasks_database_up 1.0" in page
    assert "delayed_tasks_executors 0.0" in page
