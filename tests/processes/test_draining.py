"""What an executor runs before it ends by itself: --drain, --max-tasks, --queues."""

import os
import pty
import signal
from datetime import timedelta

import pytest

from django_delayed_tasks.api import add_task, add_tasks
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from tests.processes.conftest import Start
from tests.processes.database import await_heartbeats, count, database_now, incarnations, is_settled, task
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until

LATER = timedelta(hours=1)


def test_drain_runs_what_is_due_and_leaves_the_future(starttask: Start, folder: Folder) -> None:
    add_tasks(Task(biz_code="quick", biz_num=str(number)) for number in range(150))
    add_task(Task(biz_code="chain", biz_num="c", biz_ext=4))  # four more, each added by the one before
    add_task(Task(biz_code="quick", biz_num="later", when=LATER))

    child = starttask("--drain", "--name", "drain")
    assert child.exit_code() == 0
    assert "Drained: 155 runs in " in child.output
    ran = [note.num for note in folder.notes("ran")]
    assert sorted(ran) == sorted([*map(str, range(150)), "c", "c+", "c++", "c+++", "c++++"])
    (left,) = Task.objects.all()
    assert (left.biz_num, left.status) == ("later", TaskStatus.PENDING)
    assert incarnations("drain")[0].alive is None


def test_drain_awaits_what_a_run_may_still_add(starttask: Start, folder: Folder) -> None:
    gate = folder.shut("c")
    add_task(Task(biz_code="chain", biz_num="c", biz_ext=1))
    child = starttask("--drain", "--name", "drain")
    wait_until(lambda: folder.notes("ran", "c"))
    await_heartbeats("drain", 2)  # meanwhile it has looked often, and found nothing
    gate.open()
    assert child.exit_code() == 0
    assert [note.num for note in folder.notes("ran")] == ["c", "c+"]


def test_drain_with_nothing_due(starttask: Start) -> None:
    child = starttask("--drain")
    assert child.exit_code() == 0
    assert "Drained: 0 runs" in child.output


@pytest.mark.parametrize("options", [[], ["--processes=2"]])
def test_verbosity_0_is_silent(starttask: Start, folder: Folder, options: list[str]) -> None:
    add_tasks(Task(biz_code="quick", biz_num=str(number)) for number in range(20))
    child = starttask("--drain", "-v", "0", *options)
    assert child.exit_code() == 0
    assert folder.count("ran") == 20
    assert child.output == ""


def test_drain_shows_a_bar_on_a_terminal(starttask: Start) -> None:
    add_tasks(Task(biz_code="quick", biz_num=str(number)) for number in range(20))
    terminal, other_end = pty.openpty()
    child = starttask("--drain", output=other_end)
    os.close(other_end)
    assert child.exit_code() == 0
    shown = os.read(terminal, 100_000).decode()
    os.close(terminal)
    assert f"[{'#' * 30}] 20 of 20, " in shown
    assert "Drained: 20 runs" in shown


@pytest.mark.parametrize("more", [[], ["--drain"]])
def test_max_tasks_runs_exactly_that_number(starttask: Start, folder: Folder, more: list[str]) -> None:
    add_tasks(Task(biz_code="quick", biz_num=str(number)) for number in range(20))
    child = starttask("--max-tasks", "7", *more)
    assert child.exit_code() == 0
    assert folder.count("ran") == 7
    assert count(TaskStatus.PENDING) == 13
    assert {row.attempts for row in Task.objects.all()} == {0}


def test_max_tasks_counts_runs_and_not_what_it_has_no_handler_for(
    starttask: Start, folder: Folder, unknown_codes: None
) -> None:
    add_tasks(Task(biz_code="unknown", biz_num=str(number), priority=1) for number in range(5))
    add_tasks(Task(biz_code="quick", biz_num=str(number)) for number in range(5))
    child = starttask("--max-tasks", "3")
    assert child.exit_code() == 0
    assert folder.count("ran") == 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--queues", "a,b"], ["a", "b"]),
        (["--exclude-queues", "a,b"], ["c", "default"]),
        (["--queues", "a,c", "--exclude-queues", "c"], ["a"]),
        ([], ["a", "b", "c", "default"]),
    ],
)
def test_queues(starttask: Start, folder: Folder, options: list[str], expected: list[str]) -> None:
    for queue in ("a", "b", "c", "default"):
        add_task(Task(biz_code="quick", biz_num=queue, queue=queue))
    child = starttask("--drain", *options)
    assert child.exit_code() == 0
    assert sorted(note.num for note in folder.notes("ran")) == expected
    assert count(TaskStatus.PENDING) == 4 - len(expected)


def test_drain_waits_for_the_tasks_of_one_whose_lease_is_over(starttask: Start, folder: Folder) -> None:
    """A new executor does not declare it dead at once: the database may have taken no writes."""
    folder.shut("1", gates="dead")
    dead = starttask("--name", "dead", gates="dead", LEASE=1.5).wait_until_ready()
    add_task(Task(biz_code="held", biz_num="1"))
    wait_until(lambda: folder.notes("started", "1"))
    dead.send(signal.SIGKILL)
    wait_until(lambda: incarnations("dead")[0].expires_at < database_now())

    child = starttask("--drain", HEARTBEAT=1)
    assert child.exit_code() == 0
    assert is_settled("held", "1")
    assert task("held", "1") is None
