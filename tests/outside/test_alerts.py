"""The alert rules of the documentation: each fires in the state that it is made for, not before, and not in another."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.outside.prometheus import ALERTS, program

WEB: Final = 'instance="web1:9808"'


class Case(NamedTuple):
    """What a rule watches, in samples of every 30 seconds; when it still is silent, and when it fires."""

    series: dict[str, str]
    silent: str
    fires: str
    severity: str
    summary: str
    labels: dict[str, str] = {}


CASES: Final = {
    "DelayedTasksNoExecutor": Case(
        {"delayed_tasks_executors": "2 2 0x20"}, "90s", "3m", "critical", "No executor is alive, so no task runs."
    ),
    "DelayedTasksDatabaseAway": Case(
        {f"delayed_tasks_database_up{{{WEB}}}": "1 1 0x20"}, "90s", "3m", "critical",
        "web1:9808 cannot read the tasks' database.", {"instance": "web1:9808"},
    ),
    "DelayedTasksOverdue": Case(
        {'delayed_tasks_overdue_seconds{queue="mail"}': "0+30x20"}, "3m", "5m", "warning",
        "Tasks of the queue mail are due for 5m 0s.", {"queue": "mail"},
    ),
    "DelayedTasksFailing": Case(
        {'delayed_tasks_failed_total{code="pay"}': "0 0 0 1x20"}, "1m", "2m", "warning",
        "Tasks of pay have failed for good and wait for a person.", {"code": "pay"},
    ),
    "DelayedTasksReaped": Case(
        {'delayed_tasks_reaped_total{code="pay"}': "0 0 0 1x20"}, "1m", "2m", "warning",
        "An executor crashed while it ran tasks of pay.", {"code": "pay"},
    ),
    "DelayedTasksPoolExhausted": Case(
        {'delayed_tasks_pool_in_use{pool="proxies"}': "1 2x60", 'delayed_tasks_pool_size{pool="proxies"}': "2x60"},
        "8m", "12m", "warning", "All resources of the pool proxies have been in use for ten minutes.",
        {"pool": "proxies"},
    ),
}  # fmt: skip
QUIET: Final = {
    "delayed_tasks_executors": "2x60",
    f"delayed_tasks_database_up{{{WEB}}}": "1x60",
    'delayed_tasks_overdue_seconds{queue="mail"}': "0 20 59x60",
    'delayed_tasks_failed_total{code="pay"}': "7x60",
    'delayed_tasks_reaped_total{code="pay"}': "7x60",
    'delayed_tasks_pool_in_use{pool="proxies"}': "1x60",
    'delayed_tasks_pool_size{pool="proxies"}': "2x60",
}


def promtool(*arguments: object) -> str:
    done = subprocess.run([program("promtool"), *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_has_a_case() -> None:
    assert f"{len(CASES)} rules found" in promtool("check", "rules", ALERTS)
    assert all(f"alert: {name}\n" in ALERTS.read_text() for name in CASES)


def expected(name: str, at: str, *alerts: dict[str, Any]) -> dict[str, Any]:
    return {"eval_time": at, "alertname": name, "exp_alerts": list(alerts)}


def check(tmp_path: Path, series: dict[str, str], *expectations: dict[str, Any]) -> None:
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    one = {"interval": "30s", "input_series": inputs, "alert_rule_test": expectations}
    path = tmp_path / "test.yml"
    path.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "30s", "tests": [one]}))
    promtool("test", "rules", path)


@pytest.mark.parametrize("name", CASES)
def test_it_fires_in_its_state_and_alone(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    fired = {
        "exp_labels": {"severity": case.severity, **case.labels}, "exp_annotations": {"summary": case.summary},
    }  # fmt: skip
    others = [expected(other, case.fires) for other in CASES if other != name]
    check(tmp_path, QUIET | case.series, expected(name, case.silent), expected(name, case.fires, fired), *others)


def test_no_executor_also_if_no_process_answers(tmp_path: Path) -> None:
    name = "DelayedTasksNoExecutor"
    fired = {"exp_labels": {"severity": "critical"}, "exp_annotations": {"summary": CASES[name].summary}}
    check(tmp_path, {"up": "0x20"}, expected(name, "30s"), expected(name, "2m", fired))
