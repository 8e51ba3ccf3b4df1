"""Metrics, read by the parser of Prometheus's client and by a real Prometheus, with the rules and the dashboard."""

import json
import math
import re
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import RequestFactory
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from django_delayed_tasks import leases
from django_delayed_tasks.api import add_task
from django_delayed_tasks.executor import meter, tally
from django_delayed_tasks.metrics import cluster
from django_delayed_tasks.metrics.views import metrics
from django_delayed_tasks.models import Task
from tests.executor.conftest import own_handlers  # noqa: F401
from tests.executor.parts import add, drain, handler_of
from tests.outside.prometheus import ALERTS, MONITORING, Ask, program, prometheus, rules, states
from tests.processes.conftest import Start, _known_codes, folder, start, starttask  # noqa: F401
from tests.processes.database import alive
from tests.processes.folder import Folder
from tests.processes.probing import free_port, get
from tests.processes.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
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
    tally.forget()
    yield meter.start()
    meter.stop()
    tally.forget()


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
    late = Task._base_manager.filter(pk=add("late", queue="slow"))
    late.update(claim_at=timezone.now() - timedelta(minutes=5))
    handler_of(lambda task: None, "limited", max_concurrent=1)
    limited = Task._base_manager.filter(pk=add("late", "limited", queue="limits"))
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


def test_many_queues_and_pools_have_one_series_for_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "MAX_SERIES", 2)
    handler_of(lambda task: None, queue="zebra")
    now = timezone.now()
    for queue, minutes in (("zebra", 1), ("a", 2), ("b", 3), ("c", 5), ("others", 4)):
        Task._base_manager.filter(pk=add(queue, queue=queue)).update(claim_at=now - timedelta(minutes=minutes))
    for pool in "pqrs":
        leases.Pool(pool).add("1")
    samples = seen_by_view()
    late = {dict(had)["queue"]: value // 60 for (name, had), value in samples.items() if name == "overdue_seconds"}
    sizes = {dict(had)["pool"]: value for (name, had), value in samples.items() if name == "pool_size"}
    assert late == {"zebra": 1, "a": 2, "others": 5}
    assert sizes == {"p": 1, "q": 1, "others": 2}


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


POOL = "gateways"
"""That of the handler ``pooled``."""


def test_a_real_prometheus_draws_and_watches_two_executors(
    starttask: Start,  # noqa: F811
    folder: Folder,  # noqa: F811
    tmp_path: Path,
) -> None:
    leases.Pool(POOL).add("a")
    add_task(Task(biz_code="quick", biz_num="later", when=timedelta(hours=1)))
    port = free_port()
    more = {"DDT_MORE_HANDLERS": '["tests.processes.failing.Failing"]'}
    team = starttask("--name", "team", "--processes", "2", "--metrics-port", str(port), environment=more)
    wait_until(lambda: all(alive(name) for name in ("team-1", "team-2")))
    with prometheus(tmp_path, port) as ask:
        assert_scraped(port, ask)
        wait_until(lambda: states(ask) == dict.fromkeys(states(ask), "inactive"))  # pending before the first scrape
        for code in ("single", "pooled", "quick"):
            run_until_it_rises(ask, code)
        draw_every_panel(ask)
        assert set(states(ask).values()) == {"inactive"}
        fail_a_task()
        wait_until(lambda: states(ask)["DelayedTasksFailing"] == "firing")
        team.send(15)
        assert team.exit_code() == 0
        wait_until(lambda: states(ask)["DelayedTasksNoExecutor"] == "pending")  # it fires after a minute


def assert_scraped(port: int, ask: Ask) -> None:
    """The page has what promtool wants of it, and what the rules ask for."""
    page = get(port, "/metrics")
    samples = parsed(page.body)
    assert (summed(samples, "threads"), summed(samples, "executors")) == (8, 2)
    assert summed(samples, "threads", executor="team-2") == 4
    linted = subprocess.run([program("promtool"), "check", "metrics"], input=page.body, capture_output=True, text=True)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    asked = set(re.findall(r"delayed_tasks_(\w+)", ALERTS.read_text()))
    assert len(asked) > 5
    assert asked <= {name for name, _ in samples}
    wait_until(lambda: ask("query", query="max(delayed_tasks_executors)")["result"])
    assert [found["value"][1] for found in ask("query", query="max(delayed_tasks_executors)")["result"]] == ["2"]
    wait_until(lambda: {rule["health"] for rule in rules(ask)} == {"ok"})


def run_a_task(ask: Ask, code: str, number: str) -> None:
    """Return when Prometheus knows that it ran."""
    add_task(Task(biz_code=code, biz_num=number))
    counted = f'sum(delayed_tasks_run_seconds_count{{code="{code}"}})'
    wait_until(lambda: numbers(ask, counted) == [float(number)])


def run_until_it_rises(ask: Ask, code: str) -> None:
    """Each executor has series of its own, and the first sample of a series is no increase to Prometheus."""
    for number in range(1, 20):
        run_a_task(ask, code, str(number))
        if numbers(ask, f'sum(rate(delayed_tasks_run_seconds_count{{code="{code}"}}[5m])) > 0'):
            return
    raise AssertionError(f"no increase of {code} after 19 runs by two executors")


def draw_every_panel(ask: Ask) -> None:
    """Each query of the dashboard has a number to draw."""
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) > 10
    for expression in expressions:
        draw(ask, expression)


def draw(ask: Ask, query: str) -> None:
    wait_until(lambda: numbers(ask, query), what=lambda: query)


def numbers(ask: Ask, query: str) -> list[float]:
    """What the query finds, without what is not a number, such as the quantile of a histogram that is empty."""
    found = [float(series["value"][1]) for series in ask("query", query=query)["result"]]
    return [number for number in found if not math.isnan(number)]


def fail_a_task() -> None:
    handler_of(lambda task: None, "failing")  # it is known here, and run there
    add_task(Task(biz_code="failing", biz_num="refused", biz_ext={"order": 17}))
