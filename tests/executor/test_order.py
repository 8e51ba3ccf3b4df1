"""Which of the due tasks start first in one executor, whatever kind they are of."""

import asyncio
import time
from collections import Counter
from threading import Event
from typing import Any

import pytest

from django_delayed_tasks import TaskHandler, register_task_handler
from django_delayed_tasks.api import add_tasks
from django_delayed_tasks.executor.limits import lanes
from django_delayed_tasks.executor.room.claimer import TURNS
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.claiming.request import Outpaced
from django_delayed_tasks.store.limits.claiming import ClaimChoice, ClaimResult, claim_chosen
from django_delayed_tasks.store.sql.portions import PORTION
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


class Holding:
    """Notes the starts of runs; none ends before ``count`` have started, as many as there is room for.

    Attributes:
        rows: the code and the priority of each task that was started.
        all_first: set when that many have started.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self.rows: list[tuple[str, int]] = []
        self.all_first = Event()

    def handler(self, code: str, is_async: bool = False, **options: Any) -> None:
        """Register a handler that starts, and waits."""

        def handle(handler: TaskHandler, task: Task) -> None:
            self._note(task)
            self.all_first.wait(timeout=10)

        async def ahandle(handler: TaskHandler, task: Task) -> None:
            self._note(task)
            await asyncio.to_thread(self.all_first.wait, 10)

        body = {"biz_code": code, "handle": ahandle if is_async else handle, **options}
        register_task_handler(type("Held", (TaskHandler,), body)())

    def _note(self, task: Task) -> None:
        self.rows.append((task.biz_code, task.priority))
        if len(self.rows) >= self._count:
            self.all_first.set()


MORE_THAN_A_TICK = TURNS * PORTION + 1
"""Tasks that one tick of the lanes does not look at to the end."""
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
    started = Holding(len(first))
    for code in "abc":
        started.handler(code, is_async, **LIMITED)
    add_tasks(Task(biz_code=code, biz_num=str(n), priority=priority) for n, (code, priority) in enumerate(rows))
    drain(threads=len(first), async_concurrency=len(first))
    assert sorted(started.rows[: len(first)]) == sorted(first)
    assert len(started.rows) == len(rows)


def test_tasks_that_wait_for_their_key_hold_up_nobody() -> None:
    """Neither while they are looked at, however many they are, nor for tasks of a still lower priority."""
    started = Holding(3)
    started.handler("keyed", max_concurrent=1, concurrency_key=lambda handler, task: "key")
    started.handler("limited", max_concurrent=10)
    started.handler("plain")
    add_tasks(Task(biz_code="keyed", biz_num=str(number), priority=10) for number in range(MORE_THAN_A_TICK))
    add_tasks(Task(biz_code="limited", biz_num=str(number), priority=5) for number in range(5))
    add_tasks(Task(biz_code="plain", biz_num=str(number)) for number in range(5))
    with executing(threads=3, max_tasks=3) as executor:
        assert executor.drained.wait(60)
    assert sorted(started.rows) == [("keyed", 10), ("limited", 5), ("limited", 5)]


def test_a_code_that_loses_a_race_still_gets_a_part_of_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its equals do not take all of it in the few milliseconds until it tries again: their runs may be long."""
    lost: list[str] = []

    def claim(alias: str, executor: int, chosen: ClaimChoice) -> ClaimResult:
        if not lost and chosen.tasks[0].biz_code == "a":
            lost.append("a")
            raise Outpaced
        return claim_chosen(alias, executor, chosen)

    monkeypatch.setattr(lanes, "claim_chosen", claim)
    started = Holding(4)
    for code in "ab":
        started.handler(code, max_concurrent=10)
    add_tasks(Task(biz_code=code, biz_num=str(number)) for code in "ab" for number in range(5))
    drain(threads=4)
    assert ("a", 0) in started.rows[:4]
    assert lost


def test_tasks_that_a_caller_has_locked_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are, and however long: threads that are idle take less urgent tasks."""

    def claim(alias: str, executor: int, chosen: ClaimChoice) -> ClaimResult:
        if chosen.tasks[0].biz_code == "locked":
            return ClaimResult([], [], {task.claim for task in chosen.tasks})
        return claim_chosen(alias, executor, chosen)

    monkeypatch.setattr(lanes, "claim_chosen", claim)
    started = Holding(2)
    started.handler("locked", max_concurrent=10)
    started.handler("limited", max_concurrent=10)
    started.handler("plain")
    add_tasks(Task(biz_code="locked", biz_num=str(number), priority=9) for number in range(500))
    add_tasks([Task(biz_code="limited", biz_num="1", priority=5), Task(biz_code="plain", biz_num="1")])
    with executing(threads=2, max_tasks=2) as executor:
        assert executor.drained.wait(60)
    assert sorted(started.rows) == [("limited", 5), ("plain", 0)]
