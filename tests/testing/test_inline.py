"""The mode "inline": what is due runs where it is added, once that is committed."""

from datetime import timedelta
from threading import current_thread
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import TestCase, override_settings

from django_delayed_tasks import Task, TaskException, add_task, add_tasks, get_runs, pause_queue, resume_queue
from django_delayed_tasks.states import AddAction, RunOutcome, TaskStatus
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.testing import LiveExecutor, run_until, running
from tests.executor.parts import add, handler_of
from tests.function_tasks.functions import add_up

pytestmark = [pytest.mark.django_db, pytest.mark.per_database]
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _inline() -> Any:
    with override_settings(DELAYED_TASKS={"MODE": "inline"}):
        yield


@pytest.fixture
def seen() -> list[str]:
    """The numbers of the tasks of "code" that have run."""
    numbers: list[str] = []
    handler_of(lambda task: numbers.append(task.biz_num))
    return numbers


def test_a_task_that_is_due_runs_at_once(seen: list[str]) -> None:
    assert add_task(Task(biz_code="code", biz_num="1")).action is AddAction.CREATED
    assert seen == ["1"]
    assert get_runs("code", "1").get().outcome == RunOutcome.DONE


def test_a_task_for_later_stays(seen: list[str]) -> None:
    add(when=HOUR)
    assert seen == []
    run_until(2 * HOUR)
    assert seen == ["1"]


def test_many_tasks(seen: list[str]) -> None:
    add_tasks(Task(biz_code="code", biz_num=number) for number in "123")
    assert seen == ["1", "2", "3"]


def test_more_tasks_than_runs_that_are_taken_for_endless(seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is bounded is what the runs add."""
    monkeypatch.setattr(running, "MAX_RUNS", 10)
    assert add_tasks(Task(biz_code="code", biz_num=f"{number:02}") for number in range(30)) == 30
    assert len(seen) == 30
    handler_of(lambda task: add("endless", code="endless") and None, code="endless")
    with pytest.raises(TaskException, match="no end of due tasks after 11 runs: 11 of endless, 1 of first"):
        handler_of(lambda task: add("endless", code="endless") and None, code="first")
        add("1", code="first")


def test_what_a_run_adds_runs_after_it() -> None:
    seen: list[str] = []

    def handle(task: Any) -> None:
        seen.append(f"begin {task.biz_num}")
        if task.biz_num == "1":
            add("2")
        seen.append(f"end {task.biz_num}")

    handler_of(handle)
    add("1")
    assert seen == ["begin 1", "end 1", "begin 2", "end 2"]


def test_a_failure_is_not_that_of_the_caller() -> None:
    def handle(task: Any) -> None:
        raise ValueError("no")

    handler_of(handle)
    add()
    assert Task.objects.get().status == TaskStatus.PENDING
    assert Task.objects.get().attempts == 1


def test_an_endless_task_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MAX_RUNS", 100)
    handler_of(lambda task: timedelta())
    with pytest.raises(TaskException, match="no end of due tasks"):
        add()


def test_a_function_task_runs_at_once() -> None:
    result = add_up.enqueue(1, 2)
    result.refresh()
    assert result.return_value == 3


def test_a_paused_queue_runs_when_it_is_resumed(seen: list[str]) -> None:
    pause_queue("default")
    add()
    assert seen == []
    resume_queue("default")
    assert seen == ["1"]


def test_a_block_of_the_caller_runs_nothing(seen: list[str]) -> None:
    """In a TestCase, the end of a block is no commit."""
    with TestCase.captureOnCommitCallbacks(execute=True):
        with transaction.atomic():
            add()
        assert seen == []
    assert seen == ["1"]


@pytest.mark.django_db(transaction=True)
def test_it_runs_after_the_commit_in_the_thread_of_the_caller() -> None:
    seen: list[Any] = []
    handler_of(lambda task: seen.append((task.biz_num, current_thread().name)), atomic=True)
    with transaction.atomic():
        add()
        assert seen == []
    assert seen == [("1", "MainThread")]


@pytest.mark.django_db(transaction=True)
def test_a_rollback_runs_nothing(seen: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        add()
        raise ZeroDivisionError
    assert seen == []


@pytest.mark.usefixtures("live_db")
def test_an_executor_of_this_process_runs_it() -> None:
    seen: list[str] = []
    handler_of(lambda task: seen.append(current_thread().name))
    with LiveExecutor() as executor:
        add()
        executor.wait(30)
    assert seen == ["worker-1"] or seen == ["worker-2"]


@pytest.mark.django_db(transaction=True)
def test_what_goes_wrong_after_the_commit_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The task is there: an error would tell the caller that it is not, and keep other hooks from being called."""

    def fail(alias: str) -> None:
        raise TaskException("there is no end of due tasks")

    called: list[str] = []
    monkeypatch.setattr(wakeup, "run_inline", fail)
    handler_of(lambda task: None)
    with transaction.atomic():
        assert add_task(Task(biz_code="code", biz_num="1")).action is AddAction.CREATED
        hooks: list[Any] = connection.run_on_commit
        assert all(hook[1].__qualname__ for hook in hooks)  # Django before 6.1 logs it
        transaction.on_commit(lambda: called.append("the caller's hook"))
    assert called == ["the caller's hook"]
    assert "there is no end of due tasks" in caplog.text
