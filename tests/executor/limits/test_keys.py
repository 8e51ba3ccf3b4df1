"""What ``concurrency_key`` may return, and what becomes of a task whose handler returns anything else."""

from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest

from django_delayed_tasks import task_options
from django_delayed_tasks.states import NextState
from tests.executor.limits.parts import LanesBench, add_some, limited
from tests.executor.parts import add
from tests.function_tasks.framework import InvalidTask, task


class Plan(StrEnum):
    """A text."""

    FREE = "free"


class Level(IntEnum):
    """A number."""

    ONE = 1


KEYS = [
    "customer",
    "",
    None,
    7,
    -1,
    2**70,
    Level.ONE,
    Plan.FREE,
    UUID(int=5),
    "x" * 5000,
    "a\nb\0\x1b[2J",
    "\ud800",
    "客户",
]


@pytest.mark.parametrize("key", KEYS, ids=ascii)
def test_what_is_a_key(bench: LanesBench, key: Any) -> None:
    limited(max_concurrent=1, rate="1/h", concurrency_key=lambda self, task: key)
    add_some(2)
    bench.turn()
    assert bench.numbers == ["0"]
    assert bench.failed == []


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "TypeError(\"'NoneType' object is not subscriptable\")"),
        ({"order": 7}, "KeyError('customer')"),
    ],
)
def test_data_that_lack_what_the_key_needs(bench: LanesBench, data: Any, problem: str) -> None:
    """The last line, which lists of tasks show, names the code and what is missing; the cause is above it."""
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext["customer"])
    add("bare", biz_ext=data)
    add("full", biz_ext={"customer": 7})
    bench.turn()
    assert bench.numbers == ["full"]
    [settlement] = bench.failed
    assert settlement.then is NextState.RETRY
    last = settlement.error.strip().splitlines()[-1]
    assert f"TaskException: concurrency_key() of the code 'code' raised {problem}: it gets the task before" in last
    assert 'task.biz_ext["customer"]' in settlement.error


@pytest.mark.parametrize(
    ("one", "same"), [(7, "7"), (Level.ONE, "1"), (Plan.FREE, "free"), (UUID(int=5), str(UUID(int=5))), (None, "")]
)
def test_keys_that_are_the_same(bench: LanesBench, one: Any, same: Any) -> None:
    keys = {"1": one, "2": same}
    limited(max_concurrent=1, concurrency_key=lambda self, task: keys[task.biz_num])
    add("1")
    add("2")
    bench.turn()
    assert bench.numbers == ["1"]


@pytest.mark.parametrize("key", [True, False, 1.5, b"x", ["x"], ("x",), {}, object()], ids=ascii)
def test_what_is_no_key_fails_at_once_and_for_good(bench: LanesBench, key: Any) -> None:
    """The next attempt would return the same, and the one after it."""
    limited(max_concurrent=1, max_attempts=5, concurrency_key=lambda self, task: key)
    limited("other")
    add("1")
    add("2", "other")
    bench.turn()
    assert bench.numbers == ["2"]
    [settlement] = bench.failed
    assert settlement.then is NextState.FAILED
    assert "(code): concurrency_key() gave " in settlement.error
    assert settlement.error.endswith("expected a str, an int or a UUID, or None")


async def later(number: int) -> str:
    return "key"


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("concurrency_key", "customer", "doesn't look like a module path"),
        ("concurrency_key", 5, "expected a plain function"),
        ("concurrency_key", later, "expected a plain function"),
        ("expires", 60, "expected a timedelta"),
        ("expires", timedelta(), "no run could ever start"),
    ],
)
def test_options_of_functions_are_refused_where_they_are_given(option: str, value: Any, problem: str) -> None:
    def function(number: int) -> None: ...

    function.__qualname__ = "function"  # as one of a module
    with pytest.raises((InvalidTask, ValueError), match=problem):
        task(task_options(max_concurrent=1, **{option: value})(function))
