"""A process that forks after ``start()``: the executor stays its own, and its children may have others."""

import re
from typing import Any

import pytest
from django.conf import settings

from django_delayed_tasks import Task, add_task
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import alive, is_settled
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until
from tests.sessions import other_sessions

pytestmark = pytest.mark.per_database

MANY = 100
"""More iterations of a listener than anything in these tests is a reason for; one that spins makes thousands."""


@pytest.fixture
def others(live_db: str) -> set[Any]:
    """Sessions from before: MariaDB and MySQL end the one of a listener that was killed some time later."""
    return other_sessions()


@pytest.fixture(params=["hooked", "unhooked"])
def program(others: set[Any], start: Start, request: pytest.FixtureRequest) -> Child:
    """It runs an executor named "parent"."""
    child = start("-m", "tests.processes.forked", request.param)
    child.say("start parent")
    child.wait_for("parent started")
    return child


def run(queue: str, number: str) -> None:
    add_task(Task(biz_code="held", biz_num=number, queue=queue))
    wait_until(lambda: is_settled("held", number))


def child_of(program: Child) -> int:
    [pid] = re.findall(r"^child (\d+)$", program.output, re.MULTILINE)
    return int(pid)


def test_a_child_that_ends_does_nothing_to_the_executor_of_its_parent(
    others: set[Any], program: Child, folder: Folder
) -> None:
    run("parent", "1")
    before = other_sessions() - others
    for times in (1, 2):
        program.say("fork free")
        program.say("exit")
        program.wait_for("child ended 0", times=times)
    for number in ("2", "3", "4"):
        run("parent", number)

    assert {note.pid for note in folder.notes("started")} == {program.pid}
    assert before <= other_sessions()
    program.say("count")
    program.wait_for("listened")
    [listens] = re.findall(r"listened (\d+) times", program.output)
    assert int(listens) < MANY
    program.say("exit")
    assert program.exit_code() == 0
    assert alive("parent") is None
    assert "Traceback" not in program.output


class TestChildrenThatUseTheDatabase:
    """On servers. SQLite forbids this: a child takes locks that the parent's threads had at that moment for its own."""

    __test__ = settings.DDT_DATABASE != "sqlite"

    def test_a_child_has_an_executor_of_its_own(self, program: Child, folder: Folder) -> None:
        program.say("fork free")
        program.say("start child")
        program.wait_for("child started")
        run("child", "1")
        run("parent", "2")
        row = alive("child")
        assert row is not None
        assert row.pid == child_of(program)
        assert [note.pid for note in folder.notes("started")] == [child_of(program), program.pid]

        program.say("start another")
        program.wait_for("refused: this process runs an executor already")
        program.say("shutdown")
        program.wait_for("shut down; threads: MainThread\n")
        assert alive("child") is None
        program.say("exit")
        program.wait_for("child ended 0")
        run("parent", "3")
        assert alive("parent") is not None

    def test_a_child_that_just_ends_takes_its_own_executor_along(self, program: Child) -> None:
        program.say("fork free")
        program.say("start child")
        program.wait_for("child started")
        program.say("exit")
        program.wait_for("child ended 0")
        assert alive("child") is None
        run("parent", "1")

    def test_locks_that_threads_of_the_parent_have_are_no_obstacle_to_a_child(self, program: Child) -> None:
        program.say("fork locked")
        program.say("add parent 1")
        program.wait_for("added 1")
        wait_until(lambda: is_settled("held", "1"))
        program.say("start child")
        program.wait_for("child started")
        run("child", "2")
        program.say("shutdown")
        program.wait_for("shut down")
        program.say("exit")
        program.wait_for("child ended 0")
        run("parent", "3")

    def test_a_process_of_multiprocessing_adds_tasks(self, program: Child, folder: Folder) -> None:
        for times, number in enumerate(("1", "2"), start=1):
            program.say(f"work parent {number}")
            program.wait_for("child ended 0", times=times)
            wait_until(lambda number=number: is_settled("held", number))  # type: ignore[misc]
        assert {note.pid for note in folder.notes("started")} == {program.pid}
        program.say("exit")
        assert program.exit_code() == 0
        assert "Traceback" not in program.output
