"""The kit ends what it is given as an executor does."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from django_delayed_tasks import (
    Done,
    Fail,
    Interval,
    Reschedule,
    Retry,
    Task,
    TaskHandler,
    TaskRun,
    add_task,
    register_task_handler,
)
from django_delayed_tasks.models import Success
from django_delayed_tasks.testing import run_due_tasks
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, drain, handler_of

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]

HOUR = timedelta(hours=1)


class Batched(TaskHandler):
    biz_code = "batched"

    def handle_batch(self, tasks: list[Any]) -> list[Any]:
        return [Fail("odd") if int(task.biz_num) % 2 else Done(result=task.biz_num) for task in tasks]


def handle(task: Any) -> Any:
    """End as the number of the task says."""
    match task.biz_num:
        case "done":
            return Done(result={"sum": 3})
        case "reschedule":
            return Reschedule(HOUR, biz_ext={"page": 2})
        case "retry":
            return Retry(after=HOUR, reason="busy")
        case "fail":
            return Fail("no such order")
        case "raise":
            raise ValueError("no")
        case "again at once":
            return Retry(after=timedelta()) if task.attempts < 3 else None
        case "deferred":
            add_task(Task(biz_code=task.biz_code, biz_num="deferred", when=HOUR, biz_ext="later"))
    return None


async def ahandle(task: Any) -> Any:
    return await sync_to_async(handle)(task)


NUMBERS = ("none", "done", "reschedule", "retry", "fail", "raise", "again at once", "deferred")


def wait_an_hour(handler: Any, attempt: int) -> timedelta:
    return HOUR


def register() -> None:
    handler_of(handle, "plain", backoff=wait_an_hour)
    handler_of(handle, "limited", backoff=wait_an_hour, max_concurrent=1)
    async_handler_of(ahandle, "asynchronous", backoff=wait_an_hour)
    handler_of(handle, "atomic", backoff=wait_an_hour, atomic=True)
    handler_of(lambda task: None, "last")
    register_task_handler(Batched)


def add_everything() -> None:
    for code in ("plain", "limited", "asynchronous", "atomic"):
        for number in NUMBERS:
            add(number, code=code)
    add("expired", code="last", expires_at=timezone.now() - HOUR)
    add("recurs", code="last", trigger=Interval(hours=1), when=timezone.now())
    add_task(Task(biz_code="last", biz_num="once"), once=True)
    for batched in range(6):
        add(str(batched), code="batched")


def last_line(error: str) -> str:
    return error.strip().splitlines()[-1].partition(" at 20")[0]  # an expired task says when it expired


def left() -> dict[str, Any]:
    """What is left when all that was due has run; without what depends on the time."""
    runs = TaskRun.objects.values_list("biz_code", "biz_num", "attempt", "outcome", "result", "exception")
    tasks = Task.objects.values_list("biz_code", "biz_num", "status", "attempts", "biz_ext", "version", "deferred_when")
    waits = {str(task): round((task.claim_at - timezone.now()) / HOUR) for task in Task.objects.filter(status=0)}
    return {
        "runs": sorted(map(repr, runs)),
        "tasks": sorted(map(repr, tasks)),
        "waits": waits,
        "errors": sorted(last_line(run.error) for run in TaskRun.objects.exclude(error="")),
        "successes": list(Success.objects.values_list("biz_code", "biz_num")),
    }


def test_the_same_is_left() -> None:
    register()
    add_everything()
    runs = run_due_tasks()
    by_hand = left()
    assert len(runs) == TaskRun.objects.count() == len(by_hand["runs"])

    for model in (TaskRun, Task, Success):
        model._base_manager.all().delete()
    add_everything()
    drain(threads=1)
    assert left() == by_hand
