"""One run of ``make torture-cluster`` in short sizes."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.harness.making import make

TIMEOUT = 380.0  # seconds; three servers start, and nodes are killed and synchronized again


def tortured(cluster: str, scenarios: Iterable[str], folder: Path) -> tuple[dict[str, str], str]:
    """Return the verdict of each scenario, ``name`` or ``name:bug``, and the output; skip where there is no cluster."""
    report = folder / "report.json"
    options = ["--size short", "--seed 1", f"--json {report}", *(f"--scenario {name}" for name in scenarios)]
    ended = make("torture-cluster", timeout=TIMEOUT, CLUSTER=cluster, TORTURE=" ".join(options))
    results = json.loads(report.read_text())["results"] if report.exists() else []
    if not results and any(text in ended.stdout for text in ("cannot be had here", "cannot be installed here")):
        pytest.skip(f"{cluster} cannot be had here")
    found = {f"{one['scenario']}:{one['bug']}".rstrip(":"): str(one["verdict"]) for one in results}
    return found, ended.stdout
