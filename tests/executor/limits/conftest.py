"""Fixtures for handlers' limits."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_delayed_tasks import clock
from tests.executor.limits.parts import LanesBench


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """``later(seconds)``: so much time passes on this host's monotonic clock, and stands still then."""
    passed = [clock.monotonic()]

    def pass_by(seconds: float) -> None:
        passed[0] += seconds
        monkeypatch.setattr(clock, "monotonic", lambda: passed[0])

    return pass_by


@pytest.fixture
def make_bench(transactional_db: None, later: Callable[[float], None]) -> Iterator[Callable[..., LanesBench]]:
    """Benches with options of their own. However slow the machine is, no time passes unless the test says so."""
    later(0.0)
    made: list[LanesBench] = []

    def make(name: str = "bench", **options: Any) -> LanesBench:
        made.append(LanesBench(name, **options))
        return made[-1]

    yield make
    for bench in made:
        bench.lease.end()


@pytest.fixture
def bench(make_bench: Callable[..., LanesBench]) -> LanesBench:
    """One executor's poller and lanes."""
    return make_bench()
