"""``sys.exit()`` in a handler, as in a command that ``call_command`` calls: without an error, the run is done."""

import sys
from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import Task, TaskRun, task_options
from django_delayed_tasks.states import RunOutcome
from tests.executor.batches import add_some, batched
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, drain, handler_of
from tests.function_tasks.framework import task

pytestmark = pytest.mark.usefixtures("live_db")

WELL: list[Any] = [None, 0, False]
NOT_WELL: list[Any] = [1, "", "no", 256, 0.0]


def write(name: str = "effect") -> None:
    """An effect that no executor cleans away."""
    add(name, "effect", when=timedelta(hours=1))


def effects() -> list[str]:
    return list(Task.objects.filter(biz_code="effect").order_by("id").values_list("biz_num", flat=True))


def outcomes() -> list[RunOutcome]:
    return [RunOutcome(outcome) for outcome in TaskRun.objects.order_by("id").values_list("outcome", flat=True)]


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("code", [*WELL, *NOT_WELL], ids=repr)
def test_of_a_run(code: Any, atomic: bool) -> None:
    def handle(task: Any) -> None:
        write()
        sys.exit(code)

    handler_of(handle, atomic=atomic, max_attempts=1)
    handler_of(lambda task: None, "effect")
    add()
    drain()
    is_done = any(code is well for well in WELL)
    assert outcomes() == [RunOutcome.DONE if is_done else RunOutcome.FAILED]
    assert effects() == (["effect"] if is_done or not atomic else [])


@pytest.mark.parametrize("atomic", [False, True])
def test_of_a_batch(atomic: bool) -> None:
    calls: list[int] = []

    def handle(tasks: list[Any]) -> None:
        calls.append(len(tasks))
        sys.exit()

    batched(handle, atomic=atomic, max_attempts=1)
    add_some(3)
    drain()
    assert outcomes() == [RunOutcome.DONE] * 3
    assert sum(calls) == 3


@pytest.mark.parametrize("code", [None, 3])
def test_of_an_async_run(code: int | None) -> None:
    async def handle(task: Any) -> None:
        sys.exit(code)

    async_handler_of(handle, max_attempts=1)
    handler_of(lambda task: None, "effect")
    add()
    drain()
    assert outcomes() == [RunOutcome.FAILED if code else RunOutcome.DONE]


@task
@task_options(max_attempts=1)
def leave(code: int) -> None:
    sys.exit(code)


@task
@task_options(max_attempts=1)
async def leave_async(code: int) -> None:
    sys.exit(code)


@pytest.mark.parametrize("function", [leave, leave_async])
def test_of_a_function(function: Any) -> None:
    results = [function.enqueue(code) for code in (0, 3)]
    drain()
    for result in results:
        result.refresh()
    assert [result.status.name for result in results] == ["SUCCESSFUL", "FAILED"]
