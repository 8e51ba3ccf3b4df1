"""What an executor says of runs that outlast its stop."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from django_delayed_tasks import stats
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.executor.parts import add, executing, handler_of
from tests.waiting import wait_until

LEFT = "1 task is left behind, whose run did not end, or was not settled, in time"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def go_on() -> Event:
    """Set to let the run end."""
    return Event()


@pytest.fixture
def executor(go_on: Event) -> Iterator[Executor]:
    """An executor with one run."""
    started = Event()

    def handle(task: Any) -> None:
        started.set()
        go_on.wait(60)

    handler_of(handle)
    add()
    with executing() as executor:
        assert started.wait(30)
        yield executor
        go_on.set()


def is_given_back() -> bool:
    """Whether the task waits to run again, as if it had not begun."""
    task = Task.objects.get()
    return (task.status, task.version, task.attempts, task.rescues) == (TaskStatus.PENDING, 2, 0, 0)


def end_the_run_before(part: Any, executor: Executor, go_on: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the run end when this part is told to finish, and the part wait for that."""
    finish = part.finish

    def finish_after_run(timeout: float) -> Any:
        go_on.set()
        wait_until(lambda: not executor.current())
        return finish(60.0)

    monkeypatch.setattr(part, "finish", finish_after_run)


def test_a_run_that_ends_after_the_deadline_and_is_settled_is_not_left_behind(
    executor: Executor, go_on: Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    end_the_run_before(executor.settler, executor, go_on, monkeypatch)
    assert executor.stop(0.0)
    assert TaskRun.objects.get().outcome == RunOutcome.DONE
    assert "left behind" not in caplog.text


def test_one_that_ends_after_the_last_settlement_is(
    executor: Executor, go_on: Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    end_the_run_before(executor.failures, executor, go_on, monkeypatch)
    assert not executor.stop(0.0)
    wait_until(is_given_back)  # the heartbeat does that last
    assert f"{LEFT}: code 1\n" in caplog.text


def test_so_is_one_that_does_not_end(executor: Executor, caplog: pytest.LogCaptureFixture) -> None:
    assert not executor.stop(0.0)
    wait_until(is_given_back)  # the heartbeat does that last
    assert f"{LEFT}: code 1 (for " in caplog.text


def test_a_run_that_is_left_behind_is_in_the_history_and_is_no_failure(executor: Executor) -> None:
    assert not executor.stop(0.0)
    wait_until(is_given_back)
    run = TaskRun.objects.get()
    assert (run.outcome, run.attempt, run.executor) == (RunOutcome.LOST, 1, executor.lease.executor)
    assert run.error == "cut off: its executor was stopped (executing)"
    assert run.exception == "django_delayed_tasks.exceptions.CutOff"
    wait_until(lambda: not executor._beating.is_alive)
    assert stats.failures() == []
