"""The history in the admin."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_delayed_tasks.admin.lists import filters
from django_delayed_tasks.leases import Pool
from django_delayed_tasks.models import Resource, TaskRun
from django_delayed_tasks.states import RunOutcome
from tests.admin.pages import footer_of, numbers_of, rows_of
from tests.admin.rows import CODE, MINUTE, NOW, OTHER, TRACEBACK, executor, list_of, new_run, page_of, run, task
from tests.executor.parts import handler_of

LIST = list_of("taskrun")

pytestmark = [pytest.mark.usefixtures("frozen"), pytest.mark.per_database]


def test_columns(boss: Client) -> None:
    owner = executor("web2")
    run("A-1", RunOutcome.FAILED, attempt=5, executor=owner.pk, error=TRACEBACK, finished=NOW + 61 * MINUTE)
    [row] = rows_of(boss.get(LIST))
    assert row == {
        "number": "A-1", "number.second": "ValueError: <b>no & never</b>", "code": CODE, "ended": "failed",
        "ended.second": "attempt 5",
        "finished_": "2031-05-17 12:31:00", "late": "-", "took": "1 h 1 min", "executor_": "web2",
    }  # fmt: skip


def test_cancelled_before_it_ran(boss: Client) -> None:
    row = run("A-1", RunOutcome.CANCELLED, started=None)
    [shown] = rows_of(boss.get(LIST))
    assert (shown["late"], shown["took"], "number.second" in shown) == ("-", "-", False)
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


def test_no_button_leads_to_a_log_that_is_always_empty(boss: Client) -> None:
    """Users change neither runs nor executors, but tasks, and resources."""
    Pool("proxies").add("1")
    rows: list[Any] = [run(), executor(), task(), Resource.objects.get()]
    has_log = ['class="historylink"' in boss.get(page_of(row)).content.decode() for row in rows]
    assert has_log == [False, False, True, True]


def test_page_of_a_run_that_kept_its_data(boss: Client, settings: Any) -> None:
    settings.DELAYED_TASKS = {"REDACT": ["password"]}
    data = {"function": "shop.tasks.send", "args": [17], "kwargs": {"password": "secret"}}
    html = boss.get(page_of(run("A-1", RunOutcome.FAILED, biz_ext=data, exception="shop.Error"))).content.decode()
    assert "shop.tasks.send" in html
    assert "shop.Error" in html
    assert "secret" not in html


@pytest.mark.parametrize(
    ("keep_data", "outcome", "shown"),
    [
        (None, RunOutcome.DONE, "not kept (keep_data)"),
        (None, RunOutcome.FAILED, "none, or not kept (keep_data)"),
        (False, RunOutcome.FAILED, "not kept (keep_data)"),
        (True, RunOutcome.DONE, "none, or not kept (keep_data)"),
    ],
)
def test_page_of_a_run_without_data_says_why(
    boss: Client, keep_data: bool | None, outcome: RunOutcome, shown: str
) -> None:
    handler_of(lambda task: None, keep_data=keep_data)
    html = boss.get(page_of(run("A-1", outcome, biz_code="code"))).content.decode()
    assert re.search(rf'<div class="readonly">{re.escape(shown)}</div>', html)


def test_a_task_that_was_cancelled_while_it_waited_had_no_data(boss: Client) -> None:
    assert "keep_data" not in boss.get(page_of(run(outcome=RunOutcome.CANCELLED, started=None))).content.decode()


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
        assert {row["number"]: row["executor_"] for row in rows_of(boss.get(LIST))} == {
            "a": "web1", "b": "web2", "c": "web1", "d": "-"
        }  # fmt: skip
    assert len([query for query in context.captured_queries if "_executor" in query["sql"]]) == 1
    html = boss.get(page_of(rows[1])).content.decode()
    assert f'<a href="{page_of(web2)}"><bdi>web2</bdi></a>' in html


@pytest.mark.parametrize(
    ("attempt", "started", "shown"),
    [
        (1, timedelta(milliseconds=12), "12 ms"), (1, timedelta(seconds=75), "1 min 15 s"), (2, MINUTE, "-"),
        (1, -MINUTE, "0 ms"),
    ],
)  # fmt: skip
def test_how_late_it_began(boss: Client, attempt: int, started: timedelta, shown: str) -> None:
    run("A-1", attempt=attempt, started=NOW + started, finished=NOW + started + timedelta(milliseconds=250))
    [row] = rows_of(boss.get(LIST))
    assert (row["late"], row["took"]) == (shown, "250 ms")


@pytest.mark.parametrize(("within", "numbers"), [("hour", ["1"]), ("day", ["1", "23"]), ("x", ["1", "23", "25", "70"])])
def test_finished_lately(boss: Client, within: str, numbers: list[str]) -> None:
    for hours in (70, 25, 23, 1):
        run(f"{hours}", finished=NOW - hours * 60 * MINUTE)
    assert numbers_of(boss.get(LIST, {"finished_within": within})) == numbers


def test_finished_lately_reads_a_few_runs(boss: Client) -> None:
    TaskRun.objects.bulk_create(new_run(f"{i}", finished=NOW - (2000 - i) * MINUTE) for i in range(2000))
    with CaptureQueriesContext(connection) as context:
        assert len(numbers_of(boss.get(LIST, {"finished_within": "hour"}))) == 60
    assert len(context.captured_queries) < 30


def test_frames_of_libraries_are_folded(boss: Client) -> None:
    library = '  File "/venv/lib/python3.13/site-packages/requests/api.py", line 1, in get\n    <call>\n'
    own = '  File "/srv/shop/tasks.py", line 7, in handle\n    charge()\n'
    row = run(error=f"Traceback (most recent call last):\n{library}{own}{library}{library}ValueError: <no>")
    html = boss.get(page_of(row)).content.decode()
    assert html.count("<details><summary>1 frame of libraries</summary>") == 1
    assert html.count("<details><summary>2 frames of libraries</summary>") == 1
    assert re.search(r'<pre class="ddt-pre">  File &quot;/srv/shop/tasks.py&quot;', html)
    assert '<pre class="ddt-pre">ValueError: &lt;no&gt;</pre>' in html


def test_link_to_its_task(boss: Client) -> None:
    row = task("A-1")
    assert f'<a href="{page_of(row)}">{row.pk}</a>' in boss.get(page_of(run(task_id=row.pk))).content.decode()
