"""Executors on Galera whose node is cut off, and conflicts, under torture. In the run on MariaDB only."""

from pathlib import Path

from tests.harness.torture.clustered import tortured, with_cluster

pytestmark = with_cluster
SCENARIOS = ("node-cut", "galera-conflicts")


def test_promises_are_kept_on_a_cluster(tmp_path: Path) -> None:
    verdicts, output = tortured("galera", SCENARIOS, tmp_path)
    assert verdicts == dict.fromkeys(SCENARIOS, "KEPT"), output
