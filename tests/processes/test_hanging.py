"""Handlers that hang: seen by their own time-out, and by nothing else."""

import signal

from django_delayed_tasks.api import add_task
from django_delayed_tasks.executor.process.foreground import RESTART
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.processes.conftest import Start
from tests.processes.database import count, incarnations, is_settled, outcomes
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until


def test_hanging_run_is_retried_and_its_thread_replaced(starttask: Start, folder: Folder) -> None:
    gate = folder.shut("1")
    child = starttask("--threads", "1").wait_until_ready()
    add_task(Task(biz_code="hanging", biz_num="1", biz_ext=1))

    wait_until(lambda: is_settled("hanging", "1"))  # the only thread hangs still
    assert [note.attempts for note in folder.notes("started", "1")] == [1, 2]
    assert outcomes("hanging", "1") == [RunOutcome.RETRIED, RunOutcome.DONE]
    timed_out = TaskRun.objects.get(outcome=RunOutcome.RETRIED)
    assert timed_out.error == "TaskTimeout: the run took longer than 0.5 s"
    assert timed_out.started is not None
    assert (timed_out.finished - timed_out.started).total_seconds() >= 0.5

    gate.open()
    wait_until(lambda: len(folder.notes("ended", "1")) == 2)
    child.send(signal.SIGTERM)
    assert child.exit_code() == 0
    assert TaskRun.objects.count() == 2, "the lost run was settled"


def test_too_many_lost_threads_end_the_process_with_75(starttask: Start, folder: Folder) -> None:
    numbers = ("1", "2", "3")
    for number in numbers:
        folder.shut(number)
        add_task(Task(biz_code="hanging", biz_num=number, biz_ext=1))
    child = starttask("--name", "worn", "--threads", "1", MAX_LOST_THREADS=2)
    assert child.exit_code() == RESTART == 75
    assert "more than 2 threads hang" in child.output
    assert incarnations("worn")[0].alive is None
    assert count(TaskStatus.RUNNING) == 0, "a claim was left behind"

    starttask("--name", "worn")
    wait_until(lambda: all(is_settled("hanging", number) for number in numbers))


def test_supervisor_starts_a_worn_out_process_again(starttask: Start, folder: Folder) -> None:
    numbers = ("1", "2", "3")
    for number in numbers:
        folder.shut(number)
        add_task(Task(biz_code="hanging", biz_num=number, biz_ext=1))
    supervisor = starttask("--processes=2", "--name", "team", "--threads", "1", MAX_LOST_THREADS=1)
    supervisor.wait_for("ended with 75; it is started again")
    wait_until(lambda: all(is_settled("hanging", number) for number in numbers))
    supervisor.send(signal.SIGTERM)
    assert supervisor.exit_code() == 0
