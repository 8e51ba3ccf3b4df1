"""``api.start()`` and ``api.shutdown()`` in a program of the project's own."""

import pytest

from django_delayed_tasks.states import TaskStatus
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import alive, count, incarnations, is_settled
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until


@pytest.fixture
def program(start: Start) -> Child:
    """It runs an executor that polls every ten minutes."""
    child = start("-m", "tests.processes.inprocess")
    child.say("start")
    child.wait_for("started")
    return child


def run(program: Child, number: str) -> None:
    program.say(f"add {number}")
    wait_until(lambda: is_settled("held", number))


def test_commit_wakes_it_long_before_it_polls(program: Child) -> None:
    for number in ("1", "2", "3"):
        run(program, number)
    row = alive("inside")
    assert row is not None
    assert row.pid == program.pid


def test_second_start_is_refused(program: Child) -> None:
    program.say("start")
    program.wait_for("refused: this process runs an executor already; call shutdown() first")
    run(program, "1")


def test_shutdown_lets_the_run_end_and_leaves_no_thread(program: Child, folder: Folder) -> None:
    gate = folder.shut("1")
    program.say("add 1")
    wait_until(lambda: folder.notes("started", "1"))
    program.say("shutdown waiting")
    program.say("start")  # heard after the shutdown is over
    gate.open()

    program.wait_for("shut down; threads: MainThread\n")
    program.wait_for("started", times=2)
    assert is_settled("held", "1")
    run(program, "2")
    first, second = incarnations("inside")
    assert (first.alive, second.alive) == (None, True)


def test_shutdown_without_waiting_returns_at_once(program: Child, folder: Folder) -> None:
    gate = folder.shut("1")
    program.say("add 1")
    wait_until(lambda: folder.notes("started", "1"))
    program.say("shutdown later")
    program.wait_for("shut down; threads: MainThread")
    gate.open()
    wait_until(lambda: is_settled("held", "1"))
    wait_until(lambda: alive("inside") is None)


def test_program_that_ends_after_a_shutdown_without_waiting_does_not_wait_either(
    program: Child, folder: Folder
) -> None:
    folder.shut("1")
    program.say("add 1")
    wait_until(lambda: folder.notes("started", "1"))
    program.say("shutdown later")
    program.say("end")

    assert program.exit_code() == 0
    assert "Traceback" not in program.output
    assert count(TaskStatus.RUNNING) == 1
    assert alive("inside") is not None


def test_program_that_just_ends_gives_everything_back(program: Child, folder: Folder) -> None:
    gate = folder.shut("1")
    program.say("add 1")
    wait_until(lambda: folder.notes("started", "1"))
    program.say("end")
    program.wait_for("the end")
    gate.open()

    assert program.exit_code() == 0
    assert "Traceback" not in program.output
    assert is_settled("held", "1")
    assert alive("inside") is None
