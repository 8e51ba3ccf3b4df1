"""One run of ``make torture`` for all tests that were chosen: short sizes, on the run's own kind of database."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.harness.making import make

Result = dict[str, Any]
TIMEOUT = 900.0
"""Seconds; a busy machine takes its time."""
LANES = 3
UNDER_TORTURE = {"mariadb": "mariadb-latin1"}
"""What stands for the run's kind of database, if not a plain one."""
SEED = "1"


@pytest.fixture(scope="session")
def tortured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """``tortured("name")`` or ``tortured("name:bug")``: what came of it."""
    chosen = [_chosen_by(item) for item in request.session.items if "tortured" in getattr(item, "fixturenames", ())]
    database = UNDER_TORTURE.get(settings.DDT_DATABASE, settings.DDT_DATABASE)
    results, output = _run(chosen, database, tmp_path_factory.mktemp("torture"))

    def tortured(name: str) -> Result:
        assert name in results, f"{name} did not come to an end:\n{output[-8000:]}"
        return results[name]

    return tortured


def _chosen_by(item: Any) -> str:
    return str(item.callspec.params["chosen"])


def _run(chosen: list[str], database: str, folder: Path) -> tuple[dict[str, Result], str]:
    document = folder / "report.json"
    options = ["--databases", database, "--size", "short", "--seed", SEED, "--lanes", str(LANES)]
    options += ["--json", str(document), *(f"--scenario {name}" for name in dict.fromkeys(chosen))]
    ended = make("torture", timeout=TIMEOUT, TORTURE=" ".join(options))
    results = json.loads(document.read_text())["results"]
    return {_name(result): result for result in results}, ended.stdout


def _name(result: Result) -> str:
    bug = result["bug"]
    return f"{result['scenario']}:{bug}" if bug else str(result["scenario"])
