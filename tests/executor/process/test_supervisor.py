"""What the supervisor says of a process that ended."""

import logging

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.executor.process.supervisor import Supervisor


def test_the_pause_before_a_crashed_process_is_started_again_is_named(caplog: pytest.LogCaptureFixture) -> None:
    supervisor = Supervisor(["true"], "team", 1, 10.0)
    [child] = supervisor.children
    child.started = clock.monotonic()
    for _ in range(2):
        supervisor._crashed(child, "ended with 1")
    assert [record.getMessage() for record in caplog.records] == [
        "executor team-1 ended with 1; it is started again", "executor team-1 ended with 1; it is started again in 2 s",
    ]  # fmt: skip


def test_a_log_that_raises_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its children would be left behind."""
    refusing = logging.Handler()
    monkeypatch.setattr(refusing, "emit", lambda record: 1 / 0)
    logging.getLogger().addHandler(refusing)
    try:
        supervisor = Supervisor(["true"], "team", 1, 10.0)
        supervisor._ended(supervisor.children[0], 1)
        assert supervisor.children[0].crashes == 1
    finally:
        logging.getLogger().removeHandler(refusing)
