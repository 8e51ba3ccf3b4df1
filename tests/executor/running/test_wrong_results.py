"""A result that is not an outcome is final: the handler is not called a second time, with all its effects."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.executor.batches import batched
from tests.executor.parts import add, drain, handler_of

pytestmark = pytest.mark.django_db(transaction=True)


def write(task: Any) -> None:
    """An effect, in the transaction of the run if it is atomic."""
    add(task.biz_num, "effect", when=timedelta(hours=1))


def effects() -> set[str]:
    return set(Task.objects.filter(biz_code="effect").values_list("biz_num", flat=True))


@pytest.mark.parametrize("atomic", [False, True])
def test_the_handler_runs_once(atomic: bool) -> None:
    """It has five attempts, and each would come at once. Effects of an atomic handler are rolled back."""
    calls: list[str] = []

    def handle(task: Any) -> bool:
        calls.append(task.biz_num)
        write(task)
        return True

    handler_of(handle, atomic=atomic, backoff=at_once)
    add("1")
    drain()
    assert (calls, effects()) == (["1"], set() if atomic else {"1"})
    failed = Task.objects.get(biz_code="code")
    assert failed.status == TaskStatus.FAILED
    assert failed.last_error.endswith("; did you mean Done(result=...)?")
    assert [run.outcome for run in TaskRun.objects.all()] == [RunOutcome.FAILED]


@pytest.mark.parametrize("atomic", [False, True])
def test_a_batch_with_wrong_keys_runs_once(atomic: bool) -> None:
    """No task is tried by itself: the call would return the same again."""
    calls: list[int] = []

    def handle_batch(tasks: list[Any]) -> dict[str, None]:
        calls.append(len(tasks))
        for task in tasks:
            write(task)
        return {task.biz_num: None for task in tasks}

    batched(handle_batch, atomic=atomic, backoff=at_once)
    for num in "123":
        add(num)
    drain(threads=5)
    assert (calls, effects()) == ([3], set() if atomic else {"1", "2", "3"})
    assert [task.status for task in Task.objects.filter(biz_code="code")] == [TaskStatus.FAILED] * 3
    assert [run.outcome for run in TaskRun.objects.all()] == [RunOutcome.FAILED] * 3


@pytest.mark.parametrize("atomic", [False, True])
def test_wrong_results_for_all_tasks_of_a_batch_are_final_for_each(atomic: bool) -> None:
    calls: list[int] = []

    def handle_batch(tasks: list[Any]) -> list[bool]:
        calls.append(len(tasks))
        for task in tasks:
            write(task)
        return [True] * len(tasks)

    batched(handle_batch, atomic=atomic, backoff=at_once)
    for num in "123":
        add(num)
    drain(threads=5)
    assert (calls, effects()) == ([3], set() if atomic else {"1", "2", "3"})
    failed = Task.objects.filter(biz_code="code")
    assert {(task.status, task.attempts) for task in failed} == {(TaskStatus.FAILED, 1)}
    assert all(task.last_error.endswith("; did you mean Done(result=...)?") for task in failed)


def test_a_wrong_result_in_an_atomic_batch_is_final_for_its_task_and_the_others_are_run_again() -> None:
    """The rollback takes the effects of all. Only those whose results were right have them once more."""
    calls: list[list[str]] = []
    results: dict[str, Any] = {"1": None, "2": "ok", "3": ValueError("no")}

    def handle_batch(tasks: list[Any]) -> list[Any]:
        calls.append([task.biz_num for task in tasks])
        for task in tasks:
            write(task)
        return [results[task.biz_num] for task in tasks]

    batched(handle_batch, atomic=True, max_attempts=1)
    for num in results:
        add(num)
    drain(threads=5)
    assert (calls[0], sorted(calls[1:])) == (["1", "2", "3"], [["1"], ["3"]])
    assert effects() == {"1"}
    errors = dict(Task.objects.filter(biz_code="code", status=TaskStatus.FAILED).values_list("biz_num", "last_error"))
    assert sorted(errors) == ["2", "3"]
    assert "returned 'ok'" in errors["2"]
    assert errors["3"].endswith("ValueError: no\n")


def at_once(self: Any, attempt: int) -> timedelta:
    return timedelta()
