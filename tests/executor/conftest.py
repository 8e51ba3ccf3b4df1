"""Fixtures for the executor's parts."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.handlers import registry
from tests.executor.parts import Bench


@pytest.fixture(autouse=True)
def own_handlers(settings: Any) -> Iterator[None]:
    """Each test has the handlers that it registers itself, and may add tasks before."""
    settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True}
    with registry.preserved():
        registry.clear()
        yield


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """``later(seconds)``: so much time passes on this host's monotonic clock, and stands still then."""
    passed = [clock.monotonic()]

    def pass_by(seconds: float) -> None:
        passed[0] += seconds
        monkeypatch.setattr(clock, "monotonic", lambda: passed[0])

    return pass_by


@pytest.fixture
def bench(db: None) -> Iterator[Bench]:
    """A poller on a bench."""
    made = Bench()
    yield made
    made.end()


@pytest.fixture
def make_bench(db: None) -> Iterator[Any]:
    """Benches with options of their own."""
    made: list[Bench] = []

    def make(**options: Any) -> Bench:
        made.append(Bench(**options))
        return made[-1]

    yield make
    for bench in made:
        bench.end()
