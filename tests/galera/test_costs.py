"""``make bench BENCH=clusters`` in its smallest size: a cluster is started, and has all figures. On MariaDB only."""

import json
from pathlib import Path

from tests.harness.making import make


def test_a_cluster_has_all_figures(tmp_path: Path) -> None:
    document = tmp_path / "figures.json"
    options = f"clusters --smallest --databases mariadb --json {document}"
    measured = make("bench", BENCH=options)
    assert measured.returncode == 0, measured.stdout
    figures = json.loads(document.read_text())["figures"]
    assert [(figure["variant"], figure["unit"]) for figure in figures] == [
        ("Galera: add", "ms, median"),
        ("Galera: add", "statements"),
        ("Galera: cancel", "ms, median"),
        ("Galera: cancel", "statements"),
        ("Galera: cancel", "MISSING"),
        ("Galera: drain", "tasks/s"),
    ]
