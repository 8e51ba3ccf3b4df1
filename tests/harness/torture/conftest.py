"""One run of the harness for all tests that were chosen: short sizes, on the run's own kind of database."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from harness import ROOT

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
    command = [sys.executable, "-m", "harness.torture", "--databases", database, "--size", "short", "--seed", SEED]
    command += ["--lanes", str(LANES), "--json", str(document)]
    command += [word for name in dict.fromkeys(chosen) for word in ("--scenario", name)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
    results = json.loads(document.read_text())["results"]
    return {_name(result): result for result in results}, ended.stdout + ended.stderr


def _name(result: Result) -> str:
    bug = result["bug"]
    return f"{result['scenario']}:{bug}" if bug else str(result["scenario"])
