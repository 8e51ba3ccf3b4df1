"""A task that one process adds starts at once in the executor of another, which polls every ten minutes."""

from typing import Any

import pytest

from django_delayed_tasks import Task, add_task
from tests.listeners import CAN_BE_CUT, cut, listening
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import alive, is_settled
from tests.processes.waiting import wait_until

pytestmark = pytest.mark.per_database

needs_server = pytest.mark.skipif(not CAN_BE_CUT, reason="a socket is not lost")


@pytest.fixture
def program(start: Start) -> Child:
    child = start("-m", "tests.processes.inprocess")
    child.say("start")
    child.wait_for("started")
    the_listener()  # the server may still end the sleep of a process that was killed
    return child


def the_listener() -> Any:
    """The session that listens; between two sleeps none does."""
    found: list[Any] = []

    def is_one() -> bool:
        found[:] = listening()
        return len(found) == 1

    wait_until(is_one)
    return found[0]


def run(number: str) -> None:
    add_task(Task(biz_code="held", biz_num=number))
    wait_until(lambda: is_settled("held", number))


def test_it_is_told(program: Child) -> None:
    for number in ("1", "2", "3"):
        run(number)


@needs_server
def test_it_listens_again_after_its_connection_is_lost(program: Child) -> None:
    before = the_listener()
    cut([before])
    wait_until(lambda: [pid for pid in listening() if pid != before])
    run("1")


@needs_server
def test_what_was_added_while_no_executor_listened_is_found(program: Child) -> None:
    add_task(Task(biz_code="held", biz_num="first"))
    wait_until(lambda: is_settled("held", "first"))
    cut([the_listener()])
    run("1")


def test_it_ends_as_before(program: Child) -> None:
    program.say("shutdown waiting")
    program.wait_for("shut down; threads: MainThread\n")
    assert alive("inside") is None
    wait_until(lambda: not listening())
    program.say("end")
    assert program.exit_code() == 0
    assert "Traceback" not in program.output
