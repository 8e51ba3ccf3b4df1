"""How long a contender in the wait queue pauses before it looks again."""

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.leases.waiting import Pauses


@pytest.mark.parametrize(
    ("first", "ahead", "waited", "is_free", "longest"),
    [
        pytest.param(0, 0, 0.01, False, 0.02, id="never shorter"),
        pytest.param(9, 9, 1.0, False, 0.3, id="a part of the time waited"),
        pytest.param(2, 5, 1.0, False, 0.3, id="further back than at first"),
        pytest.param(100, 1, 10.0, False, 0.04, id="a part of the time until its turn, in a quick queue"),
        pytest.param(100, 50, 1.0, False, 0.2, id="and from the middle of it"),
        pytest.param(0, 0, 5.0, False, 0.1, id="at the head"),
        pytest.param(0, 0, 15.0, False, 0.15, id="at the head for long"),
        pytest.param(3, 0, 100.0, False, 0.2, id="at the head for very long"),
        pytest.param(1, 1, 100.0, False, 0.4, id="the second"),
        pytest.param(9, 9, 100.0, False, 1.0, id="never longer"),
        pytest.param(9, 9, 100.0, True, 0.1, id="something is free, and those ahead do not take it"),
    ],
)
def test_pause(
    first: int, ahead: int, waited: float, is_free: bool, longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    pauses = Pauses()
    pauses.seconds(first, False)
    now[0] += waited
    found = [pauses.seconds(ahead, is_free) for _ in range(200)]
    assert 0.8 * longest <= min(found) < 0.84 * longest
    assert 0.96 * longest < max(found) <= longest * 1.000001
