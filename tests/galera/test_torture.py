"""``make torture-galera`` in its smallest size keeps every promise. In the run on MariaDB only."""

import json
import subprocess
import sys
from pathlib import Path

from harness import ROOT
from harness.torture.galera import SCENARIOS

TIMEOUT = 600.0  # seconds; three servers start, and nodes are killed and synchronized again


def test_promises_are_kept_on_a_cluster(tmp_path: Path) -> None:
    document = tmp_path / "report.json"
    options = ["--size", "short", "--seed", "1", "--json", str(document)]
    command = [sys.executable, "-m", "harness.torture.galera", *options]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
    output = ended.stdout + ended.stderr
    assert document.exists(), output
    results = json.loads(document.read_text())["results"]
    assert {result["scenario"]: result["verdict"] for result in results} == dict.fromkeys(SCENARIOS, "KEPT"), output
    assert ended.returncode == 0, output
