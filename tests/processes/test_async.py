"""``starttask`` with an async handler."""

import re
import signal

import pytest

from django_delayed_tasks import Task, add_tasks, register_task_handler
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.processes.conftest import Start
from tests.processes.coroutines import Patient
from tests.processes.database import count, outcomes, task
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until

ENVIRONMENT = {"DDT_MORE_HANDLERS": '["tests.processes.coroutines.Patient"]'}


@pytest.fixture(autouse=True)
def _known_code() -> None:
    register_task_handler(Patient)


def add(number: int, seconds: float) -> None:
    add_tasks(Task(biz_code="patient", biz_num=str(num), biz_ext=seconds) for num in range(number))


def test_many_wait_at_the_same_time(starttask: Start) -> None:
    """One after the other, or in the threads, they would take more than a minute."""
    add(200, 1.0)
    child = starttask("--drain", "--threads", "2", "--async-concurrency", "200", environment=ENVIRONMENT)
    assert child.exit_code() == 0
    lines = [" ".join(line.split()) for line in child.output.splitlines()]
    assert "threads 2, and 200 async runs, polling every 0.1 s" in lines
    [seconds] = re.findall(r"Drained: 200 runs in ([\d.]+) s", child.output)
    assert 1.0 <= float(seconds) < 30.0
    assert "Traceback" not in child.output


def test_sigterm_cancels_those_that_take_too_long(starttask: Start, folder: Folder) -> None:
    add(3, 600.0)
    child = starttask(environment=ENVIRONMENT, SHUTDOWN_TIMEOUT=0.2).wait_until_ready()
    wait_until(lambda: folder.count("started") == 3)
    child.send(signal.SIGTERM)
    assert child.exit_code() == 0
    assert folder.count("cancelled") == 3
    assert count(TaskStatus.PENDING) == 3
    assert {(row.attempts, row.rescues) for row in Task.objects.all()} == {(0, 0)}
    assert "waiting for 3 runs to end, 0.2 s at most" in child.output
    assert "Traceback" not in child.output


def test_sigterm_lets_them_end(starttask: Start, folder: Folder) -> None:
    add(1, 1.0)
    child = starttask(environment=ENVIRONMENT).wait_until_ready()
    wait_until(lambda: folder.count("started"))
    child.send(signal.SIGTERM)
    assert child.exit_code() == 0
    assert outcomes("patient", "0") == [RunOutcome.DONE]
    assert task("patient", "0") is None
