"""The history in the admin."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_delayed_tasks.admin.lists import filters
from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.states import RunOutcome
from tests.admin.pages import footer_of, numbers_of, rows_of
from tests.admin.rows import CODE, MINUTE, NOW, OTHER, TRACEBACK, executor, list_of, new_run, page_of, run

LIST = list_of("taskrun")

pytestmark = pytest.mark.usefixtures("frozen")


def test_columns(boss: Client) -> None:
    run("A-1", RunOutcome.FAILED, attempt=5, executor=7, error=TRACEBACK, finished=NOW + 61 * MINUTE)
    [row] = rows_of(boss.get(LIST))
    assert row == {
        "biz_num": "A-1", "biz_code": CODE, "outcome_badge": "failed", "when_": "2031-05-17 11:30:00",
        "started_": "2031-05-17 11:30:00", "took": "1 h 1 min", "attempt": "5", "executor_": "7",
        "failure": "ValueError: <b>no & never</b>",
    }  # fmt: skip


def test_cancelled_before_it_ran(boss: Client) -> None:
    row = run("A-1", RunOutcome.CANCELLED, started=None)
    [shown] = rows_of(boss.get(LIST))
    assert (shown["started_"], shown["took"], shown["failure"]) == ("-", "-", "-")
    assert boss.get(page_of(row)).status_code == 200


def test_newest_first(boss: Client) -> None:
    for num in "abc":
        run(num)
    assert numbers_of(boss.get(LIST)) == ["c", "b", "a"]
    assert footer_of(boss.get(LIST)) == "3 runs"


class TestConditions:
    @pytest.fixture(autouse=True)
    def runs(self, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two old runs, then as many as are searched without an index, four of them of interest."""
        monkeypatch.setattr(filters, "RECENT", 100)
        run("old b")
        run("old a", RunOutcome.FAILED, error="x")
        TaskRun.objects.bulk_create(new_run(f"{i}", RunOutcome.RETRIED, biz_code=OTHER) for i in range(96))
        for num, outcome in (("New", RunOutcome.FAILED), ("newer", RunOutcome.DONE)):
            run(num, outcome)
            run(num, outcome, biz_code=OTHER)

    @pytest.mark.parametrize(
        ("condition", "numbers"),
        [
            ({"outcome": "3"}, ["New", "New"]),
            ({"outcome": "3", "code": CODE}, ["New"]),
            ({"code": CODE}, ["newer", "New"]),
            ({"q": "NEW"}, ["newer", "newer", "New", "New"]),
            ({"q": "old"}, []),
            ({"q": "OLD", "code": CODE}, ["old b", "old a"]),
            ({"q": "e", "outcome": "0"}, ["newer", "newer"]),
            ({"outcome": "99"}, None),
            ({"biz_code__exact": CODE, "biz_num__exact": "old a"}, ["old a"]),
        ],
    )
    def test_found(self, boss: Client, condition: dict[str, str], numbers: list[str] | None) -> None:
        found = numbers_of(boss.get(LIST, condition))
        assert len(found) == 100 if numbers is None else found == numbers


def test_page(boss: Client) -> None:
    row = run("A-1", RunOutcome.DONE, result={"a": "<b>"}, error=TRACEBACK)
    html = boss.get(page_of(row)).content.decode()
    assert '<pre class="ddt-pre">{\n  &quot;a&quot;: &quot;&lt;b&gt;&quot;\n}</pre>' in html
    assert "ValueError: &lt;b&gt;no &amp; never&lt;/b&gt;</pre>" in html


def test_page_of_a_run_that_kept_its_data(boss: Client, settings: Any) -> None:
    settings.DELAYED_TASKS = {"REDACT": ["password"]}
    data = {"function": "shop.tasks.send", "args": [17], "kwargs": {"password": "secret"}}
    html = boss.get(page_of(run("A-1", RunOutcome.FAILED, biz_ext=data, exception="shop.Error"))).content.decode()
    assert "shop.tasks.send" in html
    assert "shop.Error" in html
    assert "secret" not in html


def test_nothing_can_be_changed(boss: Client) -> None:
    row = run()
    assert boss.get(page_of(row, "delete")).status_code == 403
    assert boss.post(page_of(row), {"_save": "1"}).status_code == 403
    assert boss.get(f"{LIST}add/").status_code == 403
    assert re.findall(r'<option value="(\w+)"', boss.get(LIST).content.decode()) == ["enqueue_again"]


def test_names_of_executors(boss: Client) -> None:
    web1, web2 = executor("web1"), executor("web2", alive=None)
    rows = [run(num, executor=by) for num, by in (("a", web1.pk), ("b", web2.pk), ("c", web1.pk), ("d", None))]
    with CaptureQueriesContext(connection) as context:
        assert {row["biz_num"]: row["executor_"] for row in rows_of(boss.get(LIST))} == {
            "a": "web1", "b": "web2", "c": "web1", "d": "-"
        }  # fmt: skip
    assert len([query for query in context.captured_queries if "_executor" in query["sql"]]) == 1
    html = boss.get(page_of(rows[1])).content.decode()
    assert '<div class="readonly">web2</div>' in html
