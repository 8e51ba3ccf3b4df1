"""``run_due_tasks`` with each kind of handler: atomic, batched, async, limited."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection
from django.utils import timezone

from django_delayed_tasks import (
    Done,
    Fail,
    Task,
    TaskHandler,
    register_task_handler,
)
from django_delayed_tasks.leases import Pool
from django_delayed_tasks.models import Executor
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.testing import run_due_tasks
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, handler_of
from tests.function_tasks import functions
from tests.testing.parts import DONE, FAILED, HOUR, RETRIED, numbers

pytestmark = pytest.mark.django_db


def test_an_atomic_run_is_rolled_back_when_it_fails() -> None:
    def handle(task: Any) -> None:
        Executor.objects.create(
            name="effect", host="h", pid=1, threads=1,
            started_at=timezone.now(), heartbeat_at=timezone.now(), expires_at=timezone.now(),
        )  # fmt: skip
        if task.biz_num == "bad":
            raise ValueError("no")

    handler_of(handle, atomic=True)
    add("bad")
    [run] = run_due_tasks()
    assert (run.outcome, run.status) == (RETRIED, TaskStatus.PENDING)
    assert not Executor.objects.filter(host="h").exists()

    add("good")
    [run] = run_due_tasks()
    assert (run.outcome, run.status) == (DONE, None)
    assert Executor.objects.filter(host="h").exists()


def test_a_batch_is_one_call() -> None:
    calls: list[int] = []

    class Batched(TaskHandler):
        biz_code = "code"
        batch_size = 20

        def handle_batch(self, tasks: list[Any]) -> list[Any]:
            calls.append(len(tasks))
            return [Fail("no") if task.biz_num == "7" else None for task in tasks]

    register_task_handler(Batched)
    for number in range(30):
        add(str(number))
    runs = run_due_tasks()
    assert calls == [20, 10]
    assert len(runs) == 30
    assert [run.biz_num for run in runs if run.outcome == FAILED] == ["7"]


def test_a_batch_that_raises_is_run_one_by_one() -> None:
    calls: list[list[str]] = []

    class Batched(TaskHandler):
        biz_code = "code"

        def handle_batch(self, tasks: list[Any]) -> None:
            calls.append(numbers(tasks))
            if any(task.biz_num == "2" for task in tasks):
                raise ValueError("2 is odd")

    register_task_handler(Batched)
    for number in ("1", "2", "3"):
        add(number)
    runs = run_due_tasks()
    assert calls == [["1", "2", "3"], ["1"], ["2"], ["3"]]
    assert runs.outcomes == [("code", "1", DONE), ("code", "2", RETRIED), ("code", "3", DONE)]


def test_async_handlers_query_in_this_transaction() -> None:
    seen: list[Any] = []

    async def handle(task: Any) -> Done:
        seen.append(await Task.objects.acount())
        return Done(result=connection.in_atomic_block)

    async_handler_of(handle)
    add("1")
    add("later", when=HOUR)
    [run] = run_due_tasks()
    assert (run.outcome, seen) == (DONE, [2])


def test_an_async_handler_that_raises_is_tried_again() -> None:
    async def handle(task: Any) -> None:
        raise ValueError("no")

    async_handler_of(handle)
    add()
    [run] = run_due_tasks()
    assert (run.outcome, str(run.exception)) == (RETRIED, "no")


def test_a_test_that_is_a_coroutine_runs_tasks_too() -> None:
    async def handle(task: Any) -> Done:
        return Done(result=await Task.objects.acount())

    async_handler_of(handle)
    add()
    [run] = async_to_sync(sync_to_async(run_due_tasks))()
    assert (run.outcome, run.result) == (DONE, 1)


def test_function_tasks_run() -> None:
    good, bad = functions.add_up.enqueue(1, 2, start=3), functions.fail.enqueue("no")
    runs = run_due_tasks()
    assert [run.outcome for run in runs.of(functions.add_up)] == [DONE]
    assert [str(run.exception) for run in runs.of(functions.fail)] == ["no"]
    good.refresh()
    bad.refresh()
    assert good.return_value == 6
    assert bad.attempts == 1


def test_tasks_of_a_limited_handler_run() -> None:
    handler_of(lambda task: None, max_concurrent=1)
    for number in ("1", "2", "3"):
        add(number)
    assert numbers(run_due_tasks()) == ["1", "2", "3"]


def test_limited_tasks_come_in_the_order_of_priorities_too() -> None:
    handler_of(lambda task: None, "free")
    handler_of(lambda task: None, "limited", max_concurrent=2)
    for code, priority in (("free", 1), ("limited", 2), ("limited", 0), ("free", -1), ("free", 3)):
        add(f"{priority}", code=code, priority=priority)
    assert numbers(run_due_tasks()) == ["3", "2", "1", "0", "-1"]


def test_tasks_without_a_permit_stay() -> None:
    handler_of(lambda task: None, rate="2/h")
    for number in ("1", "2", "3", "4"):
        add(number)
    assert numbers(run_due_tasks()) == ["1", "2"]
    left = Task.objects.values_list("status", "attempts")
    assert list(left) == [(TaskStatus.PENDING, 0)] * 2


def test_a_resource_of_its_pool_is_lent_to_a_run() -> None:
    seen: list[Any] = []
    proxies = Pool("proxies")
    proxies.add("p1", payload={"host": "10.0.0.1"})
    handler_of(lambda task: seen.append((task.resource.name, task.resource.payload)), pool="proxies")
    add("1")
    add("2")
    assert numbers(run_due_tasks()) == ["1", "2"]
    assert seen == [("p1", {"host": "10.0.0.1"})] * 2


def test_tasks_wait_for_a_resource_that_another_process_holds() -> None:
    proxies = Pool("proxies")
    proxies.add("p1")
    handler_of(lambda task: None, pool="proxies")
    handler_of(lambda task: None, "free")
    add("1")
    add("1", code="free")
    with proxies.lease():
        assert run_due_tasks().codes == ["free"]
    assert run_due_tasks().codes == ["code"]
