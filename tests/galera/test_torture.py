"""``make torture-galera`` in its smallest size keeps every promise. In the run on MariaDB only."""

import json
from pathlib import Path

from harness.torture.galera import SCENARIOS
from tests.harness.making import make

TIMEOUT = 600.0  # seconds; three servers start, and nodes are killed and synchronized again


def test_promises_are_kept_on_a_cluster(tmp_path: Path) -> None:
    document = tmp_path / "report.json"
    ended = make("torture-galera", timeout=TIMEOUT, TORTURE=f"--size short --seed 1 --json {document}")
    output = ended.stdout
    assert document.exists(), output
    results = json.loads(document.read_text())["results"]
    assert {result["scenario"]: result["verdict"] for result in results} == dict.fromkeys(SCENARIOS, "KEPT"), output
    assert ended.returncode == 0, output
