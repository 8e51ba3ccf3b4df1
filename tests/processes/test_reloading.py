"""``--reload``: the executor starts again when code changes."""

import os
import signal
from pathlib import Path

import pytest

from django_delayed_tasks.api import add_task
from django_delayed_tasks.models import Task
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import incarnations, is_settled
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until

CODE = """
from tests.processes.handlers import Quick

class Edited(Quick):
    biz_code = "edited"
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A module of handlers that can be edited."""
    path = tmp_path / "edited_handlers.py"
    path.write_text(CODE)
    return path


@pytest.fixture
def environment(code: Path) -> dict[str, str]:
    """Return the environment of a program that has handlers in that module, too."""
    places = {"PYTHONPATH": f"{code.parent}:{os.environ.get('PYTHONPATH', '')}"}
    return places | {"DDT_MORE_HANDLERS": '["edited_handlers.Edited"]'}


@pytest.fixture
def reloading(starttask: Start, environment: dict[str, str]) -> Child:
    """An executor that watches that module, too."""
    return starttask("--reload", "--name", "dev", environment=environment).wait_until_ready()


def test_it_works_and_starts_again(reloading: Child, code: Path, folder: Folder) -> None:
    # More than once: what changes before the reloader has looked for the first time is no change to it.
    wait_until(lambda: edit(code) and "changed, reloading" in reloading.output)

    reloading.wait_for("Ready (executor", times=2)
    second = incarnations("dev")[-1]
    add_task(Task(biz_code="quick", biz_num="2"))
    wait_until(lambda: folder.notes("ran", "2", pid=second.pid))
    reloading.send(signal.SIGTERM)
    assert reloading.exit_code() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("whom", ["parent", "all"])
def test_a_signal_stops_it_gracefully(reloading: Child, folder: Folder, number: signal.Signals, whom: str) -> None:
    """To the parent alone, as by Docker, or to all of its processes, as by a terminal."""
    gate = folder.shut("1")
    add_task(Task(biz_code="held", biz_num="1"))
    wait_until(lambda: folder.notes("started", "1"))
    if whom == "parent":
        reloading.send(number)
    else:
        os.killpg(reloading.pid, number)
    reloading.wait_for("waiting for 1 run")
    gate.open()
    assert reloading.exit_code() == 0
    assert is_settled("held", "1")
    [executor] = incarnations("dev")
    assert executor.alive is None


def test_the_exit_code_says_that_a_run_was_left_behind(starttask: Start, folder: Folder) -> None:
    leaving = starttask("--reload", "--name", "dev", SHUTDOWN_TIMEOUT=0.5).wait_until_ready()
    folder.shut("1")
    add_task(Task(biz_code="held", biz_num="1"))
    wait_until(lambda: folder.notes("started", "1"))
    leaving.send(signal.SIGTERM)
    assert leaving.exit_code() == 1


def test_it_ends_when_all_is_drained(starttask: Start) -> None:
    add_task(Task(biz_code="quick", biz_num="1"))
    assert starttask("--reload", "--drain").exit_code() == 0
    assert is_settled("quick", "1")


def test_a_second_signal_ends_it_at_once(reloading: Child, folder: Folder) -> None:
    folder.shut("1")
    add_task(Task(biz_code="held", biz_num="1"))
    wait_until(lambda: folder.notes("started", "1"))
    reloading.send(signal.SIGTERM)
    reloading.wait_for("waiting for 1 run")
    reloading.send(signal.SIGINT)
    assert reloading.exit_code() == 128 + signal.SIGINT


def test_an_executor_in_a_program_that_is_reloaded_ends_in_good_order(
    start: Start, environment: dict[str, str], code: Path
) -> None:
    program = start("-m", "tests.processes.reloaded", environment=environment)
    program.wait_for("started")
    wait_until(lambda: edit(code) and "changed, reloading" in program.output)
    program.wait_for("started", times=2)
    first, second = incarnations("dev")
    assert (first.alive, second.alive) == (None, True)
    add_task(Task(biz_code="quick", biz_num="1"))
    wait_until(lambda: is_settled("quick", "1"))


def edit(code: Path) -> bool:
    code.write_text(CODE + "\n# edited\n")
    return True
