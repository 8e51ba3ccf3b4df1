"""The actions on many tasks: the question before them, and all tasks that match."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client

from django_delayed_tasks.admin.actions import question, row_actions
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from tests.admin.actions import ACTIONS, LIST, STATUS, ask, confirm_once, do
from tests.admin.pages import confirm, hidden_of, messages_of
from tests.admin.rows import NOW, new_task, task

pytestmark = [pytest.mark.usefixtures("frozen"), pytest.mark.per_database]


class TestAllThatMatch:
    def test_takes_tasks_as_they_are(self, boss: Client) -> None:
        shown = task("failed 1", status=TaskStatus.FAILED)
        task("failed 2", status=TaskStatus.FAILED, version=77)
        task("failed mail", status=TaskStatus.FAILED, queue="mail")
        task("pending")
        response = do(boss, "retry_failed", shown, everything=True, status__exact="2", queue="default")
        assert set(Task.objects.filter(status=0).values_list("biz_num", flat=True)) == {
            "failed 1",
            "failed 2",
            "pending",
        }
        assert messages_of(response) == ["2 tasks were made pending again."]

    def test_those_on_the_page_are_fenced(self, boss: Client) -> None:
        shown = task("shown")
        task("not shown")
        Task._base_manager.update(version=9)
        do(boss, "run_now", shown, everything=True)
        assert Task.objects.get(claim_at=NOW).biz_num == "not shown"

    def test_in_one_request(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(row_actions, "PORTION", 10)
        Task._base_manager.bulk_create(new_task(f"{i}") for i in range(25))
        response = confirm_once(boss, ask(boss, "run_now", Task.objects.all()[0], everything=True))
        assert Task.objects.filter(claim_at=NOW).count() == LogEntry.objects.count() == 25
        assert messages_of(response) == ["25 tasks were made claimable at once."]

    def test_when_the_time_is_over_it_says_what_was_done_and_asks_about_the_rest(
        self, boss: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(row_actions, "PORTION", 10)
        monkeypatch.setattr(row_actions, "MAX_SECONDS", 0)
        Task._base_manager.bulk_create(new_task(f"{i}") for i in range(25))
        response = confirm_once(boss, ask(boss, "postpone", Task.objects.all()[0], everything=True))
        html = response.content.decode()
        assert "10 tasks were postponed." in html
        assert "The rest is left unchanged until you continue." in html
        assert "15 are selected." in html
        assert ">Yes, postpone 15 tasks</button>" in html
        assert Task.objects.filter(version=5).count() == 10
        response = confirm(boss, LIST, response)
        assert messages_of(response)[-1] == "5 tasks were postponed."
        assert set(Task.objects.values_list("version", flat=True)) == {5}, "each once"

    def test_numbers_have_separators(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(row_actions, "MAX_SECONDS", 0)
        monkeypatch.setattr(row_actions, "PORTION", 1000)
        Task._base_manager.bulk_create(new_task(f"{i}") for i in range(1001))
        first = ask(boss, "pause", Task.objects.all()[0], everything=True)
        assert "1,001 are selected." in first.content.decode()
        assert ">Yes, pause 1,001 tasks</button>" in first.content.decode()
        assert "1,000 tasks were paused" in confirm_once(boss, first).content.decode()
        assert "more than 1,000 tasks" in boss.get(LIST).content.decode()

    def test_what_is_added_meanwhile_is_left(self, boss: Client) -> None:
        task("seen 1")
        response = ask(boss, "run_now", task("seen 2"), everything=True)
        task("later")
        confirm(boss, LIST, response)
        assert set(Task.objects.filter(claim_at=NOW).values_list("biz_num", flat=True)) == {"seen 1", "seen 2"}

    @pytest.mark.parametrize("value", ["", "x", "-1", "1" * 19, None])
    def test_nonsense_about_the_keys(self, boss: Client, value: str | None) -> None:
        form: dict[str, Any] = hidden_of(ask(boss, "run_now", task(), everything=True)) | {"after": value}
        response = boss.post(LIST, {name: given for name, given in form.items() if given is not None})
        assert response.status_code == 400

    def test_permission_is_checked_for_each_request(
        self, client_of: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(row_actions, "PORTION", 1)
        monkeypatch.setattr(row_actions, "MAX_SECONDS", 0)
        client = client_of("view", "change")
        task("1")
        response = confirm_once(client, ask(client, "run_now", task("2"), everything=True))
        User.objects.get().user_permissions.set(Permission.objects.filter(codename="view_task"))
        confirm_once(client, response)
        assert Task.objects.get(claim_at=NOW).biz_num == "1"


class TestQuestion:
    @pytest.mark.parametrize(
        ("action", "count", "asks"),
        [
            ("cancel", 1, True), ("run_now", 1, False), ("run_now", 2, True), ("postpone", 1, False),
            ("postpone", 2, True), ("retry_failed", 1, False), ("retry_failed", 2, True), ("pause", 2, False),
            ("resume", 2, False),
        ],
    )  # fmt: skip
    def test_before_what_cannot_be_undone(self, boss: Client, action: str, count: int, asks: bool) -> None:
        response = ask(boss, action, *(task(f"{i}", status=STATUS[action]) for i in range(count)))
        assert (response.status_code == 200) == asks
        assert Task.objects.filter(version=4).count() == (count if asks else 0)

    @pytest.mark.parametrize("action", ACTIONS)
    def test_about_all_that_match(self, boss: Client, action: str) -> None:
        response = ask(boss, action, task(status=STATUS[action]), everything=True)
        assert "1 is selected." in response.content.decode()
        assert Task.objects.filter(version=4).exists()

    def test_says_how_many_and_which(self, boss: Client) -> None:
        html = ask(boss, "cancel", *(task(f"<b>{i:02}") for i in range(22))).content.decode()
        assert "22 are selected." in html
        assert "&lt;b&gt;19" in html
        assert "&lt;b&gt;20" not in html
        assert "and 2 more" in html

    @pytest.mark.parametrize(
        ("action", "count", "button"),
        [
            ("cancel", 1, "Yes, cancel 1 task"), ("cancel", 3, "Yes, cancel 3 tasks"),
            ("run_now", 2, "Yes, run 2 tasks now"), ("postpone", 2, "Yes, postpone 2 tasks"),
            ("retry_failed", 2, "Yes, retry 2 tasks"),
        ],
    )  # fmt: skip
    def test_the_button_says_what_it_does(self, boss: Client, action: str, count: int, button: str) -> None:
        html = ask(boss, action, *(task(f"{i}", status=STATUS[action]) for i in range(count))).content.decode()
        assert f'<button type="submit" class="button default">{button}</button>' in html

    def test_counts_up_to_a_bound(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(question, "RECENT", 2)
        html = ask(boss, "cancel", *(task(f"{i}") for i in range(3))).content.decode()
        assert "More than 2 are selected." in html
        assert ">Yes, all of them</button>" in html

    def test_the_versions_are_those_of_the_list(self, boss: Client) -> None:
        response = ask(boss, "cancel", task())
        Task._base_manager.update(version=5)
        assert "left unchanged" in messages_of(confirm(boss, LIST, response))[0]
        assert Task.objects.exists()
