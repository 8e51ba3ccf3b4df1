"""An upgrade under load in its smallest size, and the lock times of migrations: what is planted in them is found."""

from pathlib import Path

import pytest

from tests.harness.torture.conftest import TIMEOUT, run

pytestmark = [pytest.mark.per_database, pytest.mark.timeout(TIMEOUT + 100)]

KEPT = {"upgrade", "migrations"}
"""What ``make upgrade`` runs."""
PLANTED = {
    "upgrade:lose-waiting": "nothing_lost",
    "upgrade:locking-migrations": "no_pause",
    "migrations:locking-migrations": "no_pause",
}
"""Faults in executors of the new version, and in what applies its migrations, with what must be said of them."""


def test_an_upgrade_keeps_every_promise_and_what_is_planted_is_found(tmp_path: Path) -> None:
    results, output = run(PLANTED, tmp_path, target="upgrade")
    kept = {name: results.pop(name) for name in KEPT & results.keys()}
    assert {name: one["verdict"] for name, one in kept.items()} == dict.fromkeys(KEPT, "KEPT"), output
    assert kept["upgrade"]["done"] > 0
    assert any("a write waited for" in fact for fact in kept["migrations"]["facts"])
    found = {name: {text.partition(":")[0] for text in one["violations"]} for name, one in results.items()}
    assert found == {name: {invariant} for name, invariant in PLANTED.items()}, output
    assert {one["trouble"] for one in results.values()} == {""}
