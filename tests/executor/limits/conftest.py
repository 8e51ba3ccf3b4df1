"""Fixtures for handlers' limits."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.executor.limits.parts import LanesBench


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
