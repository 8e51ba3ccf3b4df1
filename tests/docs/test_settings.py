"""The examples that configure a project are accepted, and do what the pages say."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
import sentry_sdk
from django.core.checks import run_checks
from django.db import connection, migrations
from django.db.migrations.loader import MigrationLoader
from django.db.utils import ConnectionHandler
from django.test import RequestFactory
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import django_delayed_tasks
from django_delayed_tasks import Task, TaskHandler, add_task, get_task_handlers
from django_delayed_tasks.conf import settings as ours
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.support.redaction import redacted
from django_delayed_tasks.testing import declare_recurring, run_due_tasks, scheduled_tasks
from harness.servers.mysqlrouter import OPTIONS
from tests.docs.shown import know, shown
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.usefixtures("in_shop")


def complaints() -> list[str]:
    """Return what the system checks say about the library's settings."""
    return [str(problem) for problem in run_checks() if str(problem.id).startswith("django_delayed_tasks")]


def test_cluster() -> None:
    with shown("how-to/cluster.md") as page:
        page.run()
        galera = page["DATABASES"]
        page.run()
        replicated = page["DATABASES"]
        page.run()
    group: Any = ConnectionHandler(replicated)["default"]
    assert [str(host) for host in group.hosts()][2] == "db3.example.com:3306"
    cluster: Any = ConnectionHandler(galera)["default"]
    assert [str(host) for host in cluster.hosts()][2] == "db3.example.com:3307"
    assert cluster.get_connection_params()["read_timeout"] == 20
    routed: Any = ConnectionHandler(page["DATABASES"])["default"]
    assert routed.get_connection_params()["port"] == 6446
    [_, bootstrap] = blocks(ROOT / "docs/how-to/cluster.md", "sh")
    assert {*OPTIONS} <= {*bootstrap.text.split()}


def test_deploy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    start = mock.Mock()
    monkeypatch.setattr(django_delayed_tasks, "start", start)
    with shown("how-to/deploy.md", migrations=migrations) as page:
        page.run_all()
    page["post_worker_init"](None)
    start.assert_called_once_with(threads=2)

    [_, ours_] = page["Migration"].dependencies
    assert ours_ in MigrationLoader(connection).graph.leaf_nodes()

    databases = page["DATABASES"]
    databases["default"]["NAME"] = tmp_path / "db.sqlite3"
    opened = ConnectionHandler(databases)["default"]
    with opened.cursor() as cursor:
        assert cursor.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    opened.close()


def test_settings_reference(settings: Any) -> None:
    class CancelOrder(TaskHandler):
        biz_code = "cancel-order"

        def handle(self, task: Any) -> None: ...

    known: list[str] = []
    with shown("reference/settings.md", CancelOrder=CancelOrder) as page:
        page.run()
        settings.DELAYED_TASKS = page["DELAYED_TASKS"]
        assert (ours.THREADS, ours.KEEP_HISTORY, complaints()) == (16, timedelta(days=30), [])
        page.run()
        page["test_an_order_is_cancelled_later"]()
        with mock.patch.object(django_delayed_tasks, "register_task_handler", side_effect=note(known)):
            page.run()
    assert ("cancel-order" in known, "cancel-order" in get_task_handlers()) == (True, False)


def note(known: list[str]) -> Any:
    """Return the function that registers, and notes what is registered then."""
    register = django_delayed_tasks.register_task_handler

    def noting(handler: Any) -> None:
        register(handler)
        known.extend(get_task_handlers())

    return noting


def test_hidden_secrets(settings: Any) -> None:
    with shown("how-to/hide-secrets.md") as page:
        page.run()
    settings.DELAYED_TASKS = page["DELAYED_TASKS"]
    assert complaints() == []
    assert redacted({"to": "ann", "Token": "secret"}) == {"to": "ann", "Token": "********"}


def test_monitor(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    know("count")
    monkeypatch.setenv("METRICS_TOKEN", "secret")
    with shown("how-to/monitor.md") as page:
        page.run()
        [pattern] = page["urlpatterns"]
        answers = [
            pattern.callback(RequestFactory().get("/metrics", headers={"Authorization": sent}))
            for sent in ("Bearer secret", "Bearer other", "")
        ]
        assert [answer.status_code for answer in answers] == [200, 403, 403]
        assert b"delayed_tasks_executors 0.0" in answers[0].content
        page.run()
        settings.DELAYED_TASKS = page["DELAYED_TASKS"]
        add_task(Task(biz_code="count", biz_num=1))
        assert (len(run_due_tasks()), complaints()) == (1, [])
        page.run()
        assert page["AllSpans"].spans_per_second == float("inf")
        for kind in ("metric", "trace"):  # they send to a collector, and are not installed here
            exporters = ModuleType(f"opentelemetry.exporter.otlp.proto.http.{kind}_exporter")
            vars(exporters).update(OTLPMetricExporter=ConsoleMetricExporter, OTLPSpanExporter=InMemorySpanExporter)
            monkeypatch.setitem(sys.modules, exporters.__name__, exporters)
        page.run()
    set_providers = mock.Mock()
    monkeypatch.setattr(page["trace"], "set_tracer_provider", set_providers.of_traces)
    monkeypatch.setattr(page["metrics"], "set_meter_provider", set_providers.of_metrics)
    monkeypatch.setattr(sys.modules["shop"], "__file__", __file__, raising=False)
    page["ShopConfig"]("shop", sys.modules["shop"]).ready()
    assert [name for name, *_ in set_providers.mock_calls] == ["of_traces", "of_metrics"]
    for _, [provider], _ in set_providers.mock_calls:
        provider.shutdown()


def test_operate(monkeypatch: pytest.MonkeyPatch) -> None:
    know("cancel-unpaid-order")
    monkeypatch.setenv("SENTRY_DSN", "https://key@sentry.invalid/1")
    init = mock.Mock()
    monkeypatch.setattr(sentry_sdk, "init", init)
    with shown("how-to/operate.md", DELAYED_TASKS={"REDACT": ["token_of_ann"]}) as page:
        add_task(Task(biz_code="cancel-unpaid-order", biz_num=1))
        page.run()
        assert [task.status for task in page["pending"]] == [TaskStatus.PENDING]
        page.run()
        assert "WARNING django_delayed_tasks: here" in logged_with(page["LOGGING"])
        page.run()
        assert init.call_args.kwargs["event_scrubber"].denylist.count("token_of_ann") == 1
        page.run()
    declare_recurring()
    assert {task.biz_code for task in scheduled_tasks()} >= {"weekly-report", "watch-prices"}


def logged_with(config: dict[str, Any]) -> str:
    """Return what a process with this configuration writes: it would replace that of the tests."""
    program = f"import logging.config as c; c.dictConfig({config!r}); c.logging.getLogger('django_delayed_tasks')"
    done = subprocess.run([sys.executable, "-c", f"{program}.warning('here')"], capture_output=True, text=True)
    return done.stderr
