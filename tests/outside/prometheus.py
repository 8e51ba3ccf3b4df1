"""Debian's Prometheus, which is installed where root may, and what it says of the rules in the documentation."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from harness.servers.packages import find_program, install
from tests.pages import ROOT
from tests.processes.probing import free_port, get
from tests.processes.waiting import wait_until

MONITORING = ROOT / "docs/monitoring"
ALERTS = MONITORING / "alerts.yml"

Ask = Callable[..., Any]


def program(name: str) -> str:
    """The path of a program of Debian's package, which is installed if it may be."""
    if not find_program([name]):
        install(["prometheus"], "Prometheus")
    found = find_program([name])
    assert found, "install Prometheus (on Debian: apt-get install prometheus)"
    return found


def rules(ask: Ask) -> list[dict[str, Any]]:
    [group] = ask("rules")["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def states(ask: Ask) -> dict[str, str]:
    """The state of each alert: inactive, pending or firing."""
    return {rule["name"]: rule["state"] for rule in rules(ask)}


class prometheus:  # noqa: N801
    """A Prometheus that scrapes one port four times a second; ``ask(api, **parameters)`` asks it."""

    def __init__(self, place: Path, target: int) -> None:
        self._port = free_port()
        config = place / "prometheus.yml"
        scraped = [{"job_name": "tasks", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}]
        settings = {"scrape_interval": "250ms", "scrape_timeout": "250ms", "evaluation_interval": "250ms"}
        rule_files = [str(ALERTS)]
        config.write_text(json.dumps({"global": settings, "rule_files": rule_files, "scrape_configs": scraped}))
        self._command = [
            program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={place / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]  # fmt: skip
        self._log = place / "prometheus.log"

    def __enter__(self) -> Ask:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_until(lambda: get(self._port, "/-/ready").code == 200, what=lambda: self._log.read_text())
        return self._ask

    def _ask(self, api: str, **parameters: str) -> Any:
        answer = get(self._port, f"/api/v1/{api}?{urlencode(parameters)}")
        assert answer.code == 200, f"{parameters}: {answer.body}"
        return answer.json["data"]

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
