"""Nobody can receive the output: its reader has gone, the disk is full, or the descriptor was closed before the start.

What the commands say, and what handlers print, is lost then, and nothing else.
"""

import signal
import sys
from collections.abc import Callable
from datetime import timedelta

import pytest

from django_delayed_tasks import Task, api
from django_delayed_tasks.leases import mutex
from django_delayed_tasks.models import TaskRun
from tests.executor.membership.test_retention import finished
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import alive, is_settled, outcomes
from tests.processes.waiting import wait_until

UNREADABLE = """
import os, sys
how, *command = sys.argv[1:]
for number in (1, 2):
    if how == "gone":
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, number)
    elif how == "waiting":  # a pipe that is full, and would block
        reader, writer = os.pipe()
        os.set_inheritable(reader, True)
        os.set_blocking(writer, False)
        try:
            while os.write(writer, b"x" * 4096):
                pass
        except BlockingIOError:
            os.dup2(writer, number)
    elif how == "full":
        os.dup2(os.open("/dev/full", os.O_WRONLY), number)
    else:
        os.close(number)
os.execv(sys.executable, [sys.executable, *command])
"""
HOW = ("gone", "waiting", "full", "closed")
"""What has become of standard output and standard error."""
PYTHONS = {"": "buffered", "1": "unbuffered"}
Run = Callable[..., Child]


@pytest.fixture(params=HOW)
def run(request: pytest.FixtureRequest, start: Start) -> Run:
    """``run(command, *options)``: with nobody to receive its output."""

    def run(*arguments: str, unbuffered: str = "") -> Child:
        more = {"DDT_MORE_HANDLERS": '["tests.processes.failing.Outspoken"]', "PYTHONUNBUFFERED": unbuffered}
        command = ["-m", "django", *arguments]
        return start("-c", UNREADABLE, request.param, *command, environment=more)

    return run


@pytest.mark.parametrize("unbuffered", PYTHONS, ids=PYTHONS.values())
@pytest.mark.parametrize("processes", [1, 2])
def test_an_executor_starts_runs_and_stops_as_ever(
    run: Run, unknown_codes: None, processes: int, unbuffered: str
) -> None:
    api.add_task(Task(biz_code="outspoken", biz_num="1"))
    options = [] if processes == 1 else ["--processes", str(processes)]
    child = run("starttask", "--name", "unheard", *options, unbuffered=unbuffered)
    wait_until(lambda: is_settled("outspoken", "1"))
    assert len(outcomes("outspoken", "1")) == 1  # it did not fail after its work
    wait_until(lambda: alive("unheard" if processes == 1 else "unheard-2"))
    child.send(signal.SIGTERM)
    assert child.exit_code() == 0


def test_a_drain_ends_with_0(run: Run, unknown_codes: None) -> None:
    api.add_task(Task(biz_code="outspoken", biz_num="1"))
    assert run("starttask", "--drain").exit_code() == 0
    assert is_settled("outspoken", "1")


@pytest.mark.usefixtures("live_db")
def test_what_cannot_start_ends_with_1(run: Run) -> None:
    assert run("starttask", "--threads", "0").exit_code() == 1
    assert run("starttask", "--nonsense").exit_code() == 2


@pytest.mark.usefixtures("live_db")
def test_probes_by_exit_code(run: Run) -> None:
    assert run("taskhealth", "--executors", "0").exit_code() == 0
    assert run("taskhealth", "--executors", "1").exit_code() == 1


@pytest.mark.usefixtures("live_db")
def test_runmutex_ends_as_its_command_does(run: Run) -> None:
    assert run("runmutex", "nightly", "--", sys.executable, "-c", "raise SystemExit(7)").exit_code() == 7
    assert run("runmutex", "nightly", "--", "/nonexistent").exit_code() == 127
    with mutex("nightly"):
        assert run("runmutex", "nightly", "--", "true").exit_code() == 75


@pytest.mark.usefixtures("live_db")
def test_a_purge_goes_on(run: Run) -> None:
    finished("mail", "mail", ago=timedelta(days=8))
    assert run("prunetasks", "--older-than", "7d", "--yes").exit_code() == 0
    assert not TaskRun.objects.exists()
