"""The wait before the next attempt."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_delayed_tasks.handlers import TaskHandler, exponential

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(-1, 1), (0, 1), (1, 1), (2, 2), (3, 4), (12, 2048), (13, 3600), (64, 3600), (10_000, 3600), (10**18, 3600)],
)
def test_doubles_up_to_the_cap(attempt: int, seconds: int) -> None:
    assert exponential(attempt, jitter=0) == timedelta(seconds=seconds)


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_jitter_takes_away_at_most_its_share(attempt: int, jitter: float) -> None:
    whole = exponential(attempt, jitter=0)
    assert whole * (1 - jitter) - timedelta(microseconds=1) <= exponential(attempt, jitter=jitter) <= whole


@given(st.integers(-5, 10**6), st.timedeltas(timedelta(microseconds=1), timedelta.max), st.timedeltas(SECOND))
def test_never_overflows_nor_passes_the_cap(attempt: int, base: timedelta, more: timedelta) -> None:
    cap = timedelta.max if more > timedelta.max - base else base + more
    assert timedelta(0) <= exponential(attempt, base, cap) <= cap
    assert base <= exponential(attempt, base, cap, jitter=0) <= cap


def test_even_the_shortest_base_reaches_the_longest_cap() -> None:
    assert exponential(10_000, timedelta(microseconds=1), timedelta.max, jitter=0) == timedelta.max


def test_waits_are_spread() -> None:
    """Tasks that failed together must not come back together."""
    waits = [exponential(10) for _ in range(200)]
    assert len(set(waits)) > 150
    assert max(waits) - min(waits) > timedelta(seconds=128)


@pytest.mark.parametrize(
    ("base", "cap", "jitter"),
    [
        (timedelta(0), HOUR, 0.5),
        (-SECOND, HOUR, 0.5),
        (HOUR, SECOND, 0.5),
        (SECOND, HOUR, -0.1),
        (SECOND, HOUR, 1.1),
        (SECOND, HOUR, float("nan")),
    ],
)
def test_senseless_arguments_are_refused(base: timedelta, cap: timedelta, jitter: float) -> None:
    with pytest.raises(ValueError, match=r"expected"):
        exponential(1, base, cap, jitter)


def test_a_handler_backs_off_exponentially() -> None:
    handler = TaskHandler()
    assert timedelta(seconds=0.5) <= handler.backoff(1) <= SECOND
    assert timedelta(minutes=30) <= handler.backoff(10_000) <= HOUR
