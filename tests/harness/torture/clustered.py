"""One run of ``make torture-cluster`` in short sizes."""

import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import pytest

from tests.harness.making import make

TIMEOUT = 380.0  # seconds; three servers start, and nodes are killed and synchronized again
with_cluster = pytest.mark.timeout(TIMEOUT + 900)
"""The mark of these tests: before the run, which has its own time, servers may have to be installed."""


def tortured(cluster: str, scenarios: Iterable[str], folder: Path) -> tuple[dict[str, str], str]:
    """Return the verdict of each scenario, ``name`` or ``name:bug``, and the output; CannotBeHad without a cluster."""
    import_module(f"harness.servers.{cluster.partition('-')[0]}").Cluster.provide()
    report = folder / "report.json"
    options = ["--size short", "--seed 1", f"--json {report}", *(f"--scenario {name}" for name in scenarios)]
    ended = make("torture-cluster", timeout=TIMEOUT, CLUSTER=cluster, TORTURE=" ".join(options))
    results = json.loads(report.read_text())["results"] if report.exists() else []
    found = {f"{one['scenario']}:{one['bug']}".rstrip(":"): str(one["verdict"]) for one in results}
    return found, ended.stdout
