"""How fast runs end, as it was counted."""

from collections.abc import Callable

import pytest

from django_delayed_tasks.executor.room.pace import WINDOW, Pace

Later = Callable[[float], None]


def end(pace: Pace, runs: int, seconds: float = 0.01) -> None:
    for _ in range(runs):
        pace.note_end(seconds)


def test_the_rate_follows_what_ends(later: Later) -> None:
    later(0.0)
    pace = Pace()
    assert pace.rate == 0.0
    end(pace, 100)
    later(WINDOW)
    assert pace.rate == pytest.approx(100 / WINDOW)
    later(WINDOW)
    assert round(pace.rate, 3) == 0.0, "the threads are busy with long runs now"


def test_it_forgets_no_rate_between_two_looks(later: Later) -> None:
    """However often it is asked."""
    later(0.0)
    pace = Pace()
    for _ in range(200):
        end(pace, 10)
        later(0.01)
        assert pace.rate <= 1000.1
    assert pace.rate == pytest.approx(1000, rel=0.01)


def test_the_mean_follows_the_latest_runs(later: Later) -> None:
    later(0.0)
    pace = Pace()
    assert pace.mean is None
    end(pace, 10, 0.02)
    assert pace.mean == pytest.approx(0.02)
    for _ in range(30):
        end(pace, 10, 0.5)
        assert pace.mean
    assert pace.mean == pytest.approx(0.5, rel=0.01)
    later(0.6)
    assert pace.mean is None, "nothing has ended lately"


def test_the_mean_and_the_rate_each_see_every_end(later: Later) -> None:
    later(0.0)
    pace = Pace()
    end(pace, 50, 0.02)
    later(WINDOW)
    assert pace.mean == pytest.approx(0.02)
    assert pace.rate == pytest.approx(50 / WINDOW)
    runs, seconds = pace.ended
    assert (runs, round(seconds, 3)) == (50, 1.0)
