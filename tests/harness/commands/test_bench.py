"""``make bench`` measures every case, at its smallest size, on a database that is compared with a lean pipeline."""

import json
from pathlib import Path

import pytest

from harness.benchmarks.cases import LARGE, NAMES
from tests.harness.making import make

pytestmark = pytest.mark.per_database


def test_every_case_has_figures(
    project: Path, process_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL_MARIADB", process_environment["DATABASE_URL_MARIADB"])
    document = project / "figures.json"
    options = f"--smallest --repeats 1 --databases mariadb --json {document}"
    measured = make("bench", folder=project, BENCH=options)
    assert measured.returncode == 0, measured.stdout
    figures = json.loads(document.read_text())["figures"]
    assert {figure["case"] for figure in figures} == set(NAMES) - set(LARGE)
