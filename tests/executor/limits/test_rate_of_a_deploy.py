"""A deploy raises a rate while executors with the old code still run."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from django_delayed_tasks.executor.limits.permits import SHAPE_EVERY
from django_delayed_tasks.store.resources.rate_tokens import provide_tokens, tokens_of
from tests.executor.limits.parts import LanesBench, add_some, limited

RATE = 5
OLD_RATE = 2


def test_what_an_old_executor_has_disabled_is_not_slept_over(
    bench: LanesBench, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.lease, "claims_until", float("inf"))
    limited(rate=f"{RATE}/h")
    add_some(OLD_RATE)
    bench.turn()
    assert len(bench.numbers) == OLD_RATE
    provide_tokens("default", tokens_of("code"), OLD_RATE, timedelta(hours=1))  # as an executor with the old code does
    add_some(RATE, prefix="more")
    bench.turn()
    assert len(bench.numbers) == OLD_RATE
    later(SHAPE_EVERY + 1)
    bench.tick()
    assert len(bench.numbers) == RATE
