"""The harness itself: a bug that is put into the executors is found, and where it is not, nothing is complained of."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.torture.bugs import BUGS
from tests.harness.torture import test_leader_of_patroni, test_on_groupreplication

pytestmark = pytest.mark.per_database

FOUND_BY = {
    "settle-without-fence": ("proof-fence", "settled_by_its_own_run"),
    "delete-without-looking": ("proof-deferred", "nothing_lost"),
    "effects-apart": ("proof-atomic", "atomic_effects_once"),
    "claim-without-version": ("proof-version", "schedule_honoured"),
    "slots-for-all": ("proof-slots", "limits_kept"),
    "keep-of-stopping": ("stopping", "kept_remains"),
    "mangled-text": ("texts", "errors_unchanged"),
    "keep-read-only-sessions": ("proof-failover", "runs_after_failover"),
    "start-unconnected": ("proof-famine", "nothing_failed"),
    "dirty-threads": ("misuse", "runs_apart"),
    "stops-are-deaths": ("proof-stop", "rescues_are_deaths"),
    "pauses-are-deaths": ("proof-pause", "rescues_are_deaths"),
}
"""The scenario in which each must show, and the invariant that must say so."""


@pytest.mark.parametrize("chosen", [f"{scenario}:{bug}" for bug, (scenario, _) in FOUND_BY.items()])
def test_bug_is_found(chosen: str, tortured: Callable[[str], dict[str, Any]]) -> None:
    result = tortured(chosen)
    _, invariant = FOUND_BY[result["bug"]]
    assert result["verdict"] == "BROKEN"
    assert any(text.startswith(f"{invariant}:") for text in result["violations"]), result
    assert result["trouble"] == ""


@pytest.mark.parametrize("chosen", [scenario for scenario, _ in FOUND_BY.values()])
def test_without_the_bug_nothing_is_wrong(chosen: str, tortured: Callable[[str], dict[str, Any]]) -> None:
    result = tortured(chosen)
    assert (result["verdict"], result["violations"], result["trouble"]) == ("KEPT", [], "")
    assert result["done"] > 0


def test_every_bug_has_its_proof() -> None:
    on_clusters = {
        planted.partition(":")[2] for planted in (test_leader_of_patroni.PLANTED, test_on_groupreplication.PLANTED)
    }
    assert FOUND_BY.keys() | on_clusters == set(BUGS)
