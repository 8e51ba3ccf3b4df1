"""The functions for async code: each does what its namesake does."""

import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import transaction

import django_delayed_tasks
from django_delayed_tasks import (
    AddAction,
    CancelResult,
    Interval,
    Task,
    TaskHandler,
    aadd_task,
    aadd_tasks,
    acancel_task,
    acancel_tasks,
    add_task,
    adelete_tasks,
    aforget,
    aget_runs,
    aget_tasks_by_code,
    apause_queue,
    apause_task,
    areschedule_task,
    areschedule_tasks,
    aresume_queue,
    aresume_task,
    aretry_tasks,
    asynchronous,
    register_task_handler,
    task_handler,
)
from django_delayed_tasks.exceptions import InvalidTask, TaskExists, UnknownCode
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.states import TaskStatus
from tests.pages import ROOT, blocks
from tests.threads import in_thread

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def handler(settings: Any) -> Any:
    settings.DELAYED_TASKS = {}
    with registry.preserved():
        registry.clear()

        @task_handler("mail")
        def mail(task: Any) -> None: ...

        yield mail


def in_async_code(main: Callable[[], Awaitable[Any]]) -> Any:
    """Run it as an async view is: its queries are made in this thread, on the test's connection."""
    return async_to_sync(main)()


def test_each_has_a_namesake_with_the_same_arguments() -> None:
    for name in asynchronous.__all__:
        function = getattr(asynchronous, name)
        namesake = getattr(django_delayed_tasks, name[1:])
        assert inspect.iscoroutinefunction(function)
        assert inspect.signature(function) == inspect.signature(namesake)
        assert (function.__name__, function.__module__) == (name, asynchronous.__name__)
        assert function.__doc__ == f"Like :func:`{name[1:]}`, to be awaited."


def test_every_function_for_tasks_has_one() -> None:
    plain = {
        "start", "shutdown", "task_handler", "register_task_handler", "get_task_handlers", "periodic", "task_options",
    }  # fmt: skip
    functions = {name for name in django_delayed_tasks.__all__ if name.islower() and name != "__version__"}
    namesakes = set(asynchronous.__all__)
    assert {f"a{name}" for name in functions - plain - namesakes} == namesakes


def test_the_plain_ones_are_refused_in_a_coroutine_by_django() -> None:
    async def main() -> None:
        with pytest.raises(SynchronousOnlyOperation):
            add_task(Task(biz_code="mail", biz_num="1"))

    in_async_code(main)


def test_adding_and_changing_one() -> None:
    async def main() -> None:
        result = await aadd_task(Task(biz_code="mail", biz_num="1", when=HOUR))
        assert result.action is AddAction.CREATED
        with pytest.raises(TaskExists):
            await aadd_task(Task(biz_code="mail", biz_num="1"), if_exists="raise")
        with pytest.raises(UnknownCode):
            await aadd_task(Task(biz_code="male", biz_num="1"))
        with pytest.raises(InvalidTask, match="biz_num"):
            await aadd_task(Task(biz_code="mail", biz_num=""))
        assert await areschedule_task("mail", "1", 2 * HOUR)
        assert not await areschedule_task("mail", "2", HOUR)
        assert await apause_task("mail", "1")
        assert await aresume_task("mail", "1")
        assert await acancel_task("mail", "1") is CancelResult.CANCELLED
        assert await acancel_task("mail", "1") is CancelResult.MISSING
        assert not await aforget("mail", "1")

    in_async_code(main)


def test_adding_finding_and_changing_many() -> None:
    async def main() -> None:
        assert await aadd_tasks([Task(biz_code="mail", biz_num=num, when=HOUR) for num in ("a1", "a2", "b1")]) == 3
        found = [task.biz_num async for task in await aget_tasks_by_code("mail", "a")]
        assert sorted(found) == ["a1", "a2"]
        assert await areschedule_tasks("mail", "a", by=HOUR) == 2
        assert await aretry_tasks("mail", everything=True) == 0
        assert await acancel_tasks("mail", "a1") == 1
        assert await adelete_tasks("mail", "", everything=True) == 2
        assert [run.biz_num async for run in await aget_runs("mail", "a1")] == ["a1"]
        assert await apause_queue("default")
        assert await aresume_queue("default")

    in_async_code(main)


def test_those_of_a_handler(handler: Any) -> None:
    class Mail(TaskHandler):
        biz_code = "mail of a class"

        def handle(self, task: Any) -> None: ...

    register_task_handler(Mail)

    async def main() -> None:
        for one in (Mail, handler):
            result = await one.aschedule(7, HOUR, {"a": 1}, trigger=Interval(hours=1), if_exists="keep")
            assert result.action is AddAction.CREATED
            task = await one.aget(7)
            assert task
            assert task.biz_ext == {"a": 1}
            assert await one.areschedule(7, 2 * HOUR)
            assert await one.acancel(7) is CancelResult.CANCELLED
            assert await one.aget(7) is None

    in_async_code(main)


def test_what_is_added_is_committed_when_the_call_returns(live_db: str) -> None:
    async def main() -> bool:
        await aadd_task(Task(biz_code="mail", biz_num="1"))
        return await sync_to_async(in_thread)(Task.objects.exists)

    assert in_async_code(main)


def test_in_a_function_with_a_transaction_all_of_it_is_rolled_back(live_db: str) -> None:
    @transaction.atomic
    def place() -> None:
        add_task(Task(biz_code="mail", biz_num="1"))
        raise ValueError("no")

    async def main() -> None:
        with pytest.raises(ValueError, match="no"):
            await sync_to_async(place)()

    in_async_code(main)
    assert not Task.objects.exists()


def test_the_views_of_the_how_to_work() -> None:
    [views, *_] = blocks(Path(ROOT) / "docs/how-to/async.md", "python")
    names: dict[str, Any] = {}
    exec(views.text, names)

    @task_handler("cancel-unpaid-order")
    def cancel(task: Any) -> None: ...

    async def main() -> list[bytes]:
        placed = await names["place_order"](None, "A-1")
        waiting = await names["waiting_orders"](None)
        paid = await names["pay_order"](None, "A-1")
        return [placed.content, waiting.content, paid.content]

    assert in_async_code(main) == [b'{"number": "A-1"}', b'{"orders": ["A-1"]}', b'{"cancelled": "CANCELLED"}']
    assert not Task.objects.filter(status=TaskStatus.PENDING).exists()
