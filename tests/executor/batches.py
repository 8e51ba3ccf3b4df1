"""Handlers that take many tasks at once, for tests, and what they leave behind."""

from collections.abc import Callable
from typing import Any

from django_delayed_tasks import TaskHandler, TaskRun, register_task_handler
from django_delayed_tasks.models import Executor
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from tests.executor.parts import add, claim, registered

NOW = "2026-01-01T00:00Z"


def batched(handle_batch: Callable[[list[Any]], Any], code: str = "code", **attributes: Any) -> TaskHandler:
    """A registered handler that calls ``handle_batch(tasks)``."""
    members = {"biz_code": code, "handle_batch": lambda self, tasks: handle_batch(tasks), **attributes}
    return register_task_handler(type("Batched", (TaskHandler,), members)())


def add_some(count: int, **fields: Any) -> None:
    for number in range(count):
        add(str(number), **fields)


def claim_some(count: int) -> list[ClaimedTask]:
    add_some(count)
    return claim(registered(f"of {count}"))


def numbers(tasks: list[Any]) -> list[str]:
    return [task.biz_num for task in tasks]


def write(task: Any) -> None:
    Executor.objects.create(
        name=task.biz_num, host="effect", pid=1, threads=1, alive=None, started_at=NOW, heartbeat_at=NOW,
        expires_at=NOW,
    )  # fmt: skip


def write_all(tasks: list[Any]) -> None:
    for task in tasks:
        write(task)


def effects() -> set[str]:
    return set(Executor.objects.filter(host="effect").values_list("name", flat=True))


def outcomes() -> dict[str, RunOutcome]:
    return {num: RunOutcome(outcome) for num, outcome in TaskRun.objects.values_list("biz_num", "outcome")}
