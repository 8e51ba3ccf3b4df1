"""What the supervisor says of a process that ended."""

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
