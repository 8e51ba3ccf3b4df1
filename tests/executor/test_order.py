"""Which of the due tasks start first in one executor, whatever kind they are of."""

import asyncio
import time
from collections import Counter
from threading import Event
from typing import Any

import pytest

from django_delayed_tasks import TaskHandler, register_task_handler
from django_delayed_tasks.api import add_tasks
from django_delayed_tasks.models import Task
from tests.executor.parts import drain, executing
from tests.waiting import wait_until

pytestmark = [pytest.mark.per_database, pytest.mark.django_db(transaction=True)]

WORK = 0.02
"""Seconds that a run takes."""
LOW, HIGH = 2000, 10
LIMITED = {"max_concurrent": 10}
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


TWO_PRIORITIES = [("a", 0), ("a", 10), ("b", 5)]
URGENT_AND_BACKLOG = [("a", 10), *[("a", 0)] * 5, *[("b", 0)] * 5]
FEW_AND_BACKLOG = [*[("a", 5)] * 3, ("b", 5), *[("c", 0)] * 5]


@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "loop"])
@pytest.mark.parametrize(
    ("rows", "first"),
    [
        (TWO_PRIORITIES, [("a", 10), ("b", 5)]),
        (URGENT_AND_BACKLOG, [("a", 10), ("a", 0), ("b", 0), ("b", 0)]),
        (FEW_AND_BACKLOG, [("a", 5), ("a", 5), ("a", 5), ("b", 5)]),
    ],
    ids=["two priorities", "equals of a backlog", "what another one leaves"],
)
def test_codes_share_the_room_by_priority(
    rows: list[tuple[str, int]], first: list[tuple[str, int]], is_async: bool
) -> None:
    """Each priority of a code by itself: neither does a higher one lend its place to lower ones of its code, nor are
    lower ones taken while an equal code has more.

    Nothing ends until as many runs have begun as there is room for.
    """
    started: list[tuple[str, int]] = []
    has_started_first = Event()

    def begin(task: Task) -> bool:
        started.append((task.biz_code, task.priority))
        if len(started) == len(first):
            has_started_first.set()
        return len(started) <= len(first)

    def handle(handler: TaskHandler, task: Task) -> None:
        if begin(task):
            has_started_first.wait(timeout=10)

    async def ahandle(handler: TaskHandler, task: Task) -> None:
        if begin(task):
            await asyncio.to_thread(has_started_first.wait, 10)

    for code in "abc":
        body = {"biz_code": code, "handle": ahandle if is_async else handle, **LIMITED}
        register_task_handler(type("Noting", (TaskHandler,), body)())
    add_tasks(Task(biz_code=code, biz_num=str(n), priority=priority) for n, (code, priority) in enumerate(rows))
    drain(threads=len(first), async_concurrency=len(first))
    assert sorted(started[: len(first)]) == sorted(first)
    assert len(started) == len(rows)
