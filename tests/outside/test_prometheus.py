"""Metrics, read by the parser of Prometheus's client and by a real Prometheus, with the rules and the dashboard."""

import json
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import RequestFactory
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from django_delayed_tasks import leases
from django_delayed_tasks.api import add_task
from django_delayed_tasks.executor import meter
from django_delayed_tasks.metrics.views import metrics
from django_delayed_tasks.models import Task
from harness.servers.packages import find_program, install
from tests.executor.conftest import own_handlers  # noqa: F401
from tests.executor.parts import add, drain, handler_of
from tests.pages import ROOT
from tests.processes.conftest import Start, _known_codes, folder, start, starttask  # noqa: F401
from tests.processes.database import alive, is_settled
from tests.processes.folder import Folder
from tests.processes.probing import free_port, get
from tests.processes.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
MONITORING = ROOT / "docs/monitoring"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Samples:
    """The values by name and labels."""
    families = text_string_to_metric_families(text)
    return {
        (sample.name.removeprefix("delayed_tasks_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def summed(samples: Samples, name: str, **labels: str) -> float:
    """The sum of the samples that have these labels."""
    wanted = labels.items()
    return sum(value for (found, had), value in samples.items() if found == name and wanted <= dict(had).items())


@pytest.fixture
def counting() -> Iterator[meter.Meter]:
    yield meter.start()
    meter.stop()


def seen_by_view() -> Samples:
    return parsed(metrics(RequestFactory().get("/metrics")).content.decode())


def test_the_view_counts_what_this_process_ran(counting: meter.Meter) -> None:
    def handle(task: Any) -> None:
        if task.biz_num == "bad":
            raise ValueError

    handler_of(handle, max_attempts=1)
    handler_of(lambda task: None, "atomic", atomic=True)
    for number in ("1", "2", "bad"):
        add(number, when=timedelta(seconds=-40))
    add("1", "atomic")
    drain()
    late = Task.objects.filter(pk=add("late", queue="slow"))
    late.update(claim_at=timezone.now() - timedelta(minutes=5))
    handler_of(lambda task: None, "limited", max_concurrent=1)
    limited = Task.objects.filter(pk=add("late", "limited", queue="limits"))
    limited.update(claim_at=timezone.now() - timedelta(minutes=5))
    leases.Pool("proxies").add("a")
    leases.Pool("proxies").add("b")
    with leases.Pool("proxies").lease():
        samples = seen_by_view()
    assert summed(samples, "claimed_total", code="code") == 3
    assert summed(samples, "settled_total", code="code", outcome="done") == 2
    assert summed(samples, "settled_total", code="code", outcome="failed") == 1
    assert summed(samples, "settled_total", code="atomic", outcome="done") == 1
    assert summed(samples, "failed_total") == 1
    assert summed(samples, "lateness_seconds_count", code="code") == 3
    assert summed(samples, "lateness_seconds_bucket", code="code", le="30.0") == 0
    assert summed(samples, "run_seconds_count") == 4
    assert summed(samples, "claim_seconds_count") >= 1
    assert summed(samples, "agenda_seconds_count") >= 1
    assert summed(samples, "executors") == 0
    assert (summed(samples, "pool_size", pool="proxies"), summed(samples, "pool_in_use", pool="proxies")) == (2, 1)
    assert summed(samples, "overdue_seconds", queue="default") == 0
    assert summed(samples, "overdue_seconds", queue="slow") >= 299
    assert summed(samples, "overdue_seconds", queue="limits") >= 299


def test_failures_are_counted_from_zero(counting: meter.Meter) -> None:
    """Prometheus would take a first sample of 1 for no increase."""
    handler_of(lambda task: None)
    samples = seen_by_view()
    assert (samples["failed_total", (("code", "code"),)], samples["reaped_total", (("code", "code"),)]) == (0, 0)


def test_nothing_is_counted_unless_it_is_asked_for() -> None:
    handler_of(lambda task: None)
    add()
    drain()
    assert meter.current is None
    assert {name for name, _ in seen_by_view()} == {"database_up", "executors"}


@pytest.fixture
def promtool() -> str:
    return program("promtool")


def program(name: str) -> str:
    """The path of a program of Debian's package, which is installed if it may be."""
    if not find_program([name]):
        install(["prometheus"], "Prometheus")
    found = find_program([name])
    assert found, "install Prometheus (on Debian: apt-get install prometheus)"
    return found


def test_the_rules_are_valid(promtool: str) -> None:
    checked = subprocess.run([promtool, "check", "rules", MONITORING / "alerts.yml"], capture_output=True, text=True)
    assert (checked.returncode, "6 rules found" in checked.stdout) == (0, True), checked.stderr


def test_a_real_prometheus_scrapes_two_executors(
    starttask: Start,  # noqa: F811
    folder: Folder,  # noqa: F811
    promtool: str,
    tmp_path: Path,
) -> None:
    port = free_port()
    team = starttask("--name", "team", "--processes", "2", "--metrics-port", str(port))
    wait_until(lambda: all(alive(name) for name in ("team-1", "team-2")))
    add_task(Task(biz_code="quick", biz_num="1"))
    wait_until(lambda: is_settled("quick", "1"))
    wait_until(lambda: summed(parsed(get(port, "/metrics").body), "settled_total", code="quick") == 1)
    page = get(port, "/metrics")
    samples = parsed(page.body)
    assert (summed(samples, "threads"), summed(samples, "executors")) == (8, 2)
    assert summed(samples, "threads", executor="team-2") == 4
    linted = subprocess.run([promtool, "check", "metrics"], input=page.body, capture_output=True, text=True)
    assert linted.returncode == 0, linted.stdout + linted.stderr

    with prometheus(tmp_path, port) as ask:
        wait_until(lambda: ask("query", query="sum(delayed_tasks_settled_total)")["result"], timeout=60)
        dashboard = json.loads((MONITORING / "dashboard.json").read_text())
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        assert len(expressions) > 10
        for expression in expressions:
            ask("query", query=expression)
        [executors] = ask("query", query="max(delayed_tasks_executors)")["result"]
        assert executors["value"][1] == "2"
        wait_until(lambda: {rule["health"] for rule in rules(ask)} == {"ok"})
        wait_until(lambda: {rule["state"] for rule in rules(ask)} == {"inactive"})  # pending before the first scrape
    team.send(15)
    assert team.exit_code() == 0


def rules(ask: Any) -> list[dict[str, Any]]:
    [group] = ask("rules")["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


class prometheus:  # noqa: N801
    """A Prometheus that scrapes one port four times a second; ``ask(api, **parameters)`` asks it."""

    def __init__(self, place: Path, target: int) -> None:
        self._port = free_port()
        config = place / "prometheus.yml"
        scraped = [{"job_name": "tasks", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}]
        settings = {"scrape_interval": "250ms", "scrape_timeout": "250ms", "evaluation_interval": "250ms"}
        rule_files = [str(MONITORING / "alerts.yml")]
        config.write_text(json.dumps({"global": settings, "rule_files": rule_files, "scrape_configs": scraped}))
        self._command = [
            program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={place / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]  # fmt: skip
        self._log = place / "prometheus.log"

    def __enter__(self) -> Any:
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
