"""What follows a claim: threads that wait for tasks begin before the thread that has claimed them continues."""

from typing import Any

import pytest

from django_delayed_tasks.executor import starting
from django_delayed_tasks.executor.room.pace import Pace
from tests.executor.parts import Bench, add, handler_of


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for each handover."""
    found: list[int] = []
    monkeypatch.setattr(starting, "hand_over", lambda: found.append(1))
    return found


def claim(bench: Bench, count: int) -> None:
    for number in range(count):
        add(str(number))
    bench.poller.poll()
    assert len(bench.delivered) == count


@pytest.mark.parametrize("count", [1, 2])
def test_idle_threads_begin_at_once(make_bench: Any, handed_over: list[int], count: int) -> None:
    handler_of(lambda task: None)
    claim(make_bench(threads=2), count)
    assert len(handed_over) == 1


def test_busy_ones_do_not(make_bench: Any, handed_over: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    handler_of(lambda task: None)
    monkeypatch.setattr(Pace, "mean", 0.001)
    claim(make_bench(threads=2), 5)
    assert handed_over == []
