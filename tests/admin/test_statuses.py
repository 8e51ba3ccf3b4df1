"""The line of statuses above the list of tasks, and the failed tasks by their errors."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_delayed_tasks.admin.lists.filters import count_text
from django_delayed_tasks.admin.tasks import errors
from django_delayed_tasks.executor.membership.surveyor import take_survey
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats import backlogs
from django_delayed_tasks.stats.backlogs import StatusCount
from django_delayed_tasks.store.claiming import waiting
from tests.admin.pages import confirm, numbers_of, rows_of, text_of
from tests.admin.rows import HOUR, MINUTE, NOW, OTHER, TRACEBACK, list_of, new_task, task

LIST = list_of("task")
ERRORS = reverse("admin:django_delayed_tasks_task_errors")

pytestmark = pytest.mark.usefixtures("frozen")


def statuses_of(response: Any) -> list[str]:
    """The links of the line of statuses."""
    line = re.search(r'<nav class="ddt-statuses".*?</nav>', response.content.decode(), re.DOTALL)
    assert line
    return [text_of(link) for link in re.findall(r"<a .*?</a>", line[0], re.DOTALL)]


class TestStatuses:
    def test_counts(self, boss: Client) -> None:
        for number in range(3):
            task(f"{number}")
        task("failed", status=TaskStatus.FAILED)
        shown = ["All", "pending 3", "running 0", "failed 1", "Failed tasks by error", "paused 0"]
        assert statuses_of(boss.get(LIST)) == shown
        assert statuses_of(boss.get(LIST, {"status__exact": "1", "queue": "elsewhere"})) == shown

    def test_no_errors_are_offered_where_nothing_failed(self, boss: Client) -> None:
        assert statuses_of(boss.get(LIST)) == ["All", "pending 0", "running 0", "failed 0", "paused 0"]

    def test_of_a_big_table_from_the_survey(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (waiting, backlogs):
            monkeypatch.setattr(module, "COUNTED", 2)
        for number in range(5):
            task(f"{number}")
        assert statuses_of(boss.get(LIST))[1] == "pending more than 2"
        take_survey("default")
        Task._base_manager.filter(biz_num="0").delete()
        assert statuses_of(boss.get(LIST))[1:3] == ["pending about 5", "running 0"]

    def test_numbers_have_separators(self) -> None:
        assert count_text(StatusCount(5_000_000, is_exact=False, is_surveyed=True)) == "about 5,000,000"


def failed(number: str, error: str, minutes: int = 1, **more: Any) -> Task:
    """A task that failed some minutes ago."""
    return task(number, status=TaskStatus.FAILED, last_error=error, claim_at=NOW - minutes * MINUTE, **more)


class TestByError:
    @pytest.fixture(autouse=True)
    def tasks(self, db: None) -> None:
        failed("a", TRACEBACK, 5)
        failed("b", TRACEBACK.replace("no & never", "not today") + "\n", 3, queue="mail")
        failed("c", "shop.gateways.Declined", 9)
        failed("d", TRACEBACK, 7, biz_code=OTHER)
        failed("e", "its executor died: 3 times", 1)
        task("pending", last_error=TRACEBACK)

    def test_largest_group_first(self, boss: Client) -> None:
        rows = [(row["number"], row["count"], row["latest"]) for row in rows_of(boss.get(ERRORS))]
        assert rows[0] == ("ValueError", "2", "2031-05-17 11:27:00")
        assert sorted(rows[1:]) == [
            ("ValueError", "1", "2031-05-17 11:23:00"),
            ("its executor died: 3 times", "1", "2031-05-17 11:29:00"),
            ("shop.gateways.Declined", "1", "2031-05-17 11:21:00"),
        ]

    def test_the_latest_message_is_shown_escaped(self, boss: Client) -> None:
        row, html = rows_of(boss.get(ERRORS))[0], boss.get(ERRORS).content.decode()
        assert row["number.second"] == "<b>not today</b>"
        assert "<b>not" not in html

    def test_a_group_leads_to_its_tasks(self, boss: Client) -> None:
        html = boss.get(ERRORS).content.decode()
        [query, *_] = re.findall(rf'href="{LIST}\?([^"]*)"><bdi>ValueError', html)
        found = boss.get(LIST, dict(parse_qsl(query.replace("&amp;", "&"))))
        assert numbers_of(found) == ["b", "a"]
        assert "By error" in text_of(found.content.decode())
        assert "ValueError (of the 2,000 tasks that failed last)" in found.content.decode()

    def test_a_group_is_retried_as_a_whole(self, boss: Client) -> None:
        condition = {"status__exact": "2", "error": "ValueError"}
        form = {"action": "retry_failed", "_selected_action": [Task.objects.get(biz_num="a").pk], "select_across": 1}
        confirm(boss, LIST, boss.post(LIST, form, query_params=condition), **condition)
        left = Task.objects.filter(status=TaskStatus.FAILED)
        assert set(left.values_list("biz_num", flat=True)) == {"c", "e"}

    @pytest.mark.parametrize("error", ["", "no such error", "Value", "ValueError: no", "x" * 9000, "%"])
    def test_an_error_is_matched_as_a_whole(self, boss: Client, error: str) -> None:
        found = numbers_of(boss.get(LIST, {"error": error}))
        assert len(found) == (0 if error else 6)

    def test_with_many_levels(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("django_delayed_tasks.admin.lists.segments.MAX_LEVELS", 0)
        assert rows_of(boss.get(ERRORS))[0]["number.second"] == "<b>not today</b>"
        monkeypatch.setattr(errors, "MAX_TASKS", 2)
        html = boss.get(ERRORS).content.decode()
        assert "too many queues and priorities to find the latest failures. These are 2 of them." in html

    def test_only_the_latest_are_read(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(errors, "MAX_TASKS", 2)
        response = boss.get(ERRORS)
        assert {row["number"] for row in rows_of(response)} == {"ValueError", "its executor died: 3 times"}
        assert "More than 2 tasks have failed. These are the 2 that failed last." in response.content.decode()

    def test_all_of_them_need_no_note(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(errors, "MAX_TASKS", Task.objects.filter(status=TaskStatus.FAILED).count())
        assert "tasks have failed" not in boss.get(ERRORS).content.decode()

    def test_data_is_not_read(self, boss: Client) -> None:
        with CaptureQueriesContext(connection) as context:
            boss.get(ERRORS)
        assert not [query["sql"] for query in context.captured_queries if "biz_ext" in query["sql"]]


def test_nothing_has_failed(boss: Client) -> None:
    assert "No task has failed." in boss.get(ERRORS).content.decode()


def test_errors_need_the_permission_to_view_tasks(client_of: Callable[..., Client]) -> None:
    assert client_of("change").get(ERRORS).status_code == 200
    assert Client().get(ERRORS).status_code == 302


def test_errors_are_hidden_from_other_staff(client_of: Callable[..., Client]) -> None:
    assert client_of().get(ERRORS).status_code == 403


def test_many_failures_take_no_more_statements(boss: Client) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as context:
            assert boss.get(ERRORS).status_code == 200
        return len(context.captured_queries)

    failed("first", TRACEBACK)
    few = statements()
    rows = (new_task(f"{i}", status=TaskStatus.FAILED, last_error=TRACEBACK, claim_at=NOW - HOUR) for i in range(600))
    Task._base_manager.bulk_create(rows)
    assert statements() == few
