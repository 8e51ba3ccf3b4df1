"""Limits that cannot be are refused when the handler is registered."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks.exceptions import InvalidHandler
from django_delayed_tasks.handlers import TaskHandler, register_task_handler, task_handler
from django_delayed_tasks.handlers.attributes import Rate, parse_rate
from tests.executor.parts import handler_of

WRONG: list[tuple[str, Any]] = [
    *(("max_concurrent", value) for value in (0, -1, 1001, 2.0, "3", True)),
    *(
        ("rate", value)
        for value in ("", "100", "100/", "/m", "0/m", "-1/m", "1.5/m", "10001/m", "5/0s", "5/32d", "5/w", 5)
    ),
    *(("rate", value) for value in ("٣/m", "5/m; DROP", "99999999999/m", b"5/m", timedelta(seconds=1))),
    *(("pool", value) for value in ("", "p" * 51, " p", "p\n", "ddt.mutex", 5, ["p"])),
    ("concurrency_key", "customer"),
]


@pytest.mark.parametrize(("attribute", "value"), WRONG)
def test_refused(attribute: str, value: Any) -> None:
    with pytest.raises(InvalidHandler, match=attribute):
        handler_of(lambda task: None, **{attribute: value})


async def _asynchronously(self: Any, task: Any) -> str:
    return "x"


def test_a_key_cannot_be_told_asynchronously() -> None:
    with pytest.raises(InvalidHandler, match="concurrency_key"):
        handler_of(lambda task: None, concurrency_key=_asynchronously)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100/m", Rate(100, timedelta(minutes=1))),
        ("5/10s", Rate(5, timedelta(seconds=10))),
        (" 1 / 2 h ", Rate(1, timedelta(hours=2))),
        ("10000/31d", Rate(10_000, timedelta(days=31))),
    ],
)
def test_rates(text: str, rate: Rate) -> None:
    assert parse_rate(text) == rate


def test_accepted() -> None:
    handler = handler_of(lambda task: None, max_concurrent=1000, rate="10000/d", pool="p" * 50)
    assert handler.is_limited
    assert not TaskHandler().is_limited


def test_of_a_function() -> None:
    @task_handler("decorated", max_concurrent=2, rate="5/m", pool="p", concurrency_key=lambda task: task.biz_num)
    def handle(task: Any) -> None:
        pass

    assert handle.handler.concurrency_key(type("T", (), {"biz_num": "n"})()) == "n"
    assert handle.handler.max_concurrent == 2
    register_task_handler(handle.handler)
