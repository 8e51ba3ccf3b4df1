"""Which of the due tasks start first in one executor, whatever kind they are of."""

import asyncio
import time
from collections import Counter
from threading import Barrier
from typing import Any

import pytest

from django_delayed_tasks import TaskHandler, register_task_handler
from django_delayed_tasks.api import add_tasks
from django_delayed_tasks.models import Task
from tests.executor.parts import drain, executing, handler_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.per_database, pytest.mark.django_db(transaction=True)]

WORK = 0.02
"""Seconds that a run takes."""
LOW, HIGH = 2000, 10
LIMITED = {"max_concurrent": 10}
ROWS = [("a", 0), ("a", 10), ("b", 5)]
KINDS: dict[str, dict[str, Any]] = {"plain": {}, "limited": LIMITED}


class Starts:
    """Notes which tasks have started, by their code."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    def handler(self, code: str, kind: str, is_async: bool) -> None:
        """Register a handler that notes its starts."""

        def handle(handler: TaskHandler, task: Task) -> None:
            self.codes.append(code)
            time.sleep(WORK)

        async def ahandle(handler: TaskHandler, task: Task) -> None:
            self.codes.append(code)
            await asyncio.sleep(WORK)

        body = {"biz_code": code, "handle": ahandle if is_async else handle, **KINDS[kind]}
        register_task_handler(type("Noting", (TaskHandler,), body)())

    def of(self, code: str) -> int:
        return self.codes.count(code)


@pytest.fixture
def starts() -> Starts:
    return Starts()


@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "loop"])
@pytest.mark.parametrize(("low", "high"), [("plain", "limited"), ("limited", "plain"), ("limited", "limited")])
def test_a_higher_priority_overtakes_a_backlog(starts: Starts, low: str, high: str, is_async: bool) -> None:
    """Before it, only what was claimed ahead starts: about a tenth of a second of work."""
    starts.handler("low", low, is_async)
    starts.handler("high", high, is_async)
    add_tasks(Task(biz_code="low", biz_num=str(number)) for number in range(LOW))
    with executing(threads=4, async_concurrency=4):
        wait_until(lambda: starts.of("low") > 20)
        before = starts.of("low")
        add_tasks(Task(biz_code="high", biz_num=str(number), priority=10) for number in range(HIGH))
        wait_until(lambda: starts.of("high") == HIGH)
        last = len(starts.codes) - 1 - starts.codes[::-1].index("high")
        between = Counter(starts.codes[:last])["low"] - before
        assert between < LOW / 3


@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "loop"])
def test_equal_priorities_take_turns(starts: Starts, is_async: bool) -> None:
    """While all of them have a backlog."""
    kinds = {"a": "plain", "b": "limited", "c": "limited"}
    for code, kind in kinds.items():
        starts.handler(code, kind, is_async)
        add_tasks(Task(biz_code=code, biz_num=str(number)) for number in range(600))
    with executing(threads=4, async_concurrency=4):
        wait_until(lambda: len(starts.codes) > 700)
        found = Counter(starts.codes[100:700])
        assert max(found.values()) < 2 * min(found[code] for code in kinds), found


def test_a_code_with_two_priorities_comes_first_with_the_higher_one_only() -> None:
    """What has the lower one waits for the other code, although there is room for both when they are claimed."""
    started: list[tuple[str, int]] = []
    both = Barrier(2)

    def handle(task: Task) -> None:
        started.append((task.biz_code, task.priority))
        if task.priority:
            both.wait(timeout=10)

    for code in ("a", "b"):
        handler_of(handle, code, **LIMITED)
    add_tasks(Task(biz_code=code, biz_num=f"{priority}", priority=priority) for code, priority in ROWS)
    drain(threads=2)
    assert set(started[:2]) == {("a", 10), ("b", 5)}
    assert started[2:] == [("a", 0)]
