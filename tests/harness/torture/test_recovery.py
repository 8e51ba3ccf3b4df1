"""How long it took until what a dead executor had claimed was claimed again."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings

from django_delayed_tasks.states import RunOutcome
from harness.torture import moments
from harness.torture.facts import Facts
from harness.torture.ledger import Ledger, Run
from harness.torture.recovery import claimed_again, distribution
from harness.torture.tally import Tally

__test__ = settings.DDT_DATABASE == "sqlite"  # nothing is asked of a database

START = datetime(2030, 1, 1, tzinfo=UTC)
DEAD, PID = 7, 4711


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def lost(task: int, version: int, code: str) -> Run:
    return Run(1, task, version, code, "1", START, RunOutcome.LOST, None, after(3), DEAD, None, "")


def test_those_that_killed_are_apart() -> None:
    ledger = Ledger([], [], [lost(1, 1, "t-plain"), lost(2, 5, "t-fatal"), lost(3, 1, "t-plain")], [], {DEAD: PID})
    tally = Tally(deaths=[(PID, after(0)), (PID + 1, after(2))])
    claims = {1: [(1, after(-1)), (2, after(4)), (3, after(9))], 2: [(5, after(-1)), (7, after(6))], 3: [(1, START)]}
    assert claimed_again(Facts(ledger), tally, claims) == {"innocent": [4.0], "killing": [6.0]}


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([], {"count": 0}),
        ([2.0], {"count": 1, "p50": 2.0, "p99": 2.0, "longest": 2.0}),
        ([float(one) for one in range(1, 201)], {"count": 200, "p50": 100.0, "p99": 198.0, "longest": 200.0}),
    ],
)
def test_distribution(seconds: list[float], expected: dict[str, float]) -> None:
    assert distribution(seconds) == expected


def test_what_executors_note_is_read(tmp_path: Path) -> None:
    began = datetime.now(UTC)
    for name, version in (("b", 4), ("a", 3)):
        moments.note_claims(tmp_path, name, [SimpleNamespace(id=1, version=version), SimpleNamespace(id=2, version=1)])
    moments.note_death(tmp_path, "a")
    found = moments.claims(tmp_path)
    assert [version for version, _ in found[1]] == [3, 4]
    assert [version for version, _ in found[2]] == [1, 1]
    [(_, died)] = moments.deaths(tmp_path)
    assert all(began - timedelta(milliseconds=1) <= moment <= died for _, moment in found[1])
