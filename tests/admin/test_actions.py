"""The actions of the list of tasks: what they do, who may do it, and to which versions of the tasks."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_delayed_tasks.admin.actions import seen
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.admin.actions import ACTIONS, LIST, STATUS, do
from tests.admin.pages import messages_of, rows_of
from tests.admin.rows import HOUR, NOW, task

pytestmark = pytest.mark.usefixtures("frozen")


class TestEffect:
    def test_run_now(self, boss: Client) -> None:
        row = task(when=NOW + HOUR, attempts=3)
        response = do(boss, "run_now", row)
        row.refresh_from_db()
        assert (row.claim_at, row.when, row.attempts, row.version) == (NOW, NOW, 0, 5)
        assert messages_of(response) == ["1 task was made claimable at once."]

    def test_run_now_keeps_the_time_of_a_recurring_task(self, boss: Client) -> None:
        row = task(when=NOW + HOUR, trigger="Interval(hours=2)")
        do(boss, "run_now", row)
        row.refresh_from_db()
        assert (row.claim_at, row.when, row.trigger_text) == (NOW, NOW + HOUR, "Interval(hours=2)")

    def test_pause_and_resume(self, boss: Client) -> None:
        row = task(when=NOW - 5 * HOUR, trigger="Interval(hours=2)")
        response = do(boss, "pause", row)
        row.refresh_from_db()
        assert (row.status, row.version) == (TaskStatus.PAUSED, 5)
        assert messages_of(response) == ["1 task was paused, or will be after the current run."]
        response = do(boss, "resume", row)
        row.refresh_from_db()
        assert (row.status, row.when, row.version) == (TaskStatus.PENDING, NOW + HOUR, 6)  # what was missed is missed
        assert messages_of(response)[1:] == ["1 task was resumed."]
        assert [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")] == [
            "Paused, or will be after the current run.",
            "Resumed.",
        ]

    def test_pause_of_a_running_task_waits_for_its_end(self, boss: Client) -> None:
        row = task(status=TaskStatus.RUNNING)
        do(boss, "pause", row)
        assert Task.objects.values_list("status", "pause_requested", "version").get() == (TaskStatus.RUNNING, True, 4)
        assert rows_of(boss.get(LIST))[0]["state"] == "pausing"
        do(boss, "resume", row)
        assert Task.objects.values_list("status", "pause_requested", "version").get() == (TaskStatus.RUNNING, None, 4)

    @pytest.mark.parametrize(
        ("action", "status"),
        [("pause", TaskStatus.FAILED), ("pause", TaskStatus.PAUSED)]
        + [("resume", status) for status in (TaskStatus.PENDING, TaskStatus.FAILED, TaskStatus.RUNNING)],
    )
    def test_not_in_this_state(self, boss: Client, action: str, status: TaskStatus) -> None:
        response = do(boss, action, task(status=status))
        assert "left unchanged" in messages_of(response)[0]
        assert Task.objects.values_list("status", "version", "pause_requested").get() == (status, 4, None)

    def test_resume_of_what_cannot_be_read_leaves_it_and_only_it(self, boss: Client) -> None:
        spoilt = task("1", status=TaskStatus.PAUSED, trigger="spoilt")
        response = do(boss, "resume", spoilt, task("2", status=TaskStatus.PAUSED))
        assert [message[:30] for message in messages_of(response)] == [
            "1 task was resumed.", "1 task was left unchanged: it ",
        ]  # fmt: skip
        assert Task.objects.get(status=TaskStatus.PAUSED).biz_num == "1"

    def test_postpone_by_an_hour(self, boss: Client) -> None:
        rows = [task("1", NOW - HOUR), task("2", NOW + HOUR)]
        response = do(boss, "postpone", *rows)
        assert [Task.objects.get(pk=row.pk).claim_at for row in rows] == [NOW + HOUR, NOW + 2 * HOUR]
        assert messages_of(response) == ["2 tasks were postponed."]

    def test_retry_failed(self, boss: Client) -> None:
        row = task(when=NOW - HOUR, status=TaskStatus.FAILED, attempts=5, last_error="oh")
        do(boss, "retry_failed", row)
        row.refresh_from_db()
        assert (row.status, row.claim_at, row.attempts, row.last_error) == (TaskStatus.PENDING, NOW, 0, "")

    @pytest.mark.parametrize("status", [TaskStatus.PENDING, TaskStatus.FAILED])
    def test_cancel(self, boss: Client, status: TaskStatus) -> None:
        row = task("A-1", status=status)
        do(boss, "cancel", row)
        assert not Task.objects.exists()
        assert list(TaskRun.objects.values_list("biz_num", "outcome")) == [("A-1", RunOutcome.CANCELLED)]

    def test_cancel_of_a_running_task_asks_it_to_stop(self, boss: Client) -> None:
        row = task(status=TaskStatus.RUNNING, deferred_when=NOW)
        do(boss, "cancel", row)
        row.refresh_from_db()
        assert (row.status, row.version) == (TaskStatus.RUNNING, 4)
        assert (row.cancel_requested_at, row.deferred_when) == (NOW, None)

    def test_wakes_the_executors_of_this_process(
        self, boss: Client, django_capture_on_commit_callbacks: Callable[..., Any]
    ) -> None:
        from threading import Event

        from django_delayed_tasks.store.notices import wakeup

        sleeper = Event()
        wakeup.enlist(sleeper)
        with django_capture_on_commit_callbacks(execute=True):
            do(boss, "run_now", task())
        wakeup.dismiss(sleeper)
        assert sleeper.is_set()

    def test_is_logged(self, boss: Client) -> None:
        changed, not_changed = task("1"), task("2", status=TaskStatus.RUNNING)
        do(boss, "run_now", changed, not_changed)
        [entry] = LogEntry.objects.all()
        assert (entry.object_id, entry.object_repr) == (str(changed.pk), str(changed))
        assert entry.get_change_message() == "Made claimable at once."


class TestFence:
    @pytest.mark.parametrize("action", ACTIONS)
    def test_changed_since_the_page_was_loaded(self, boss: Client, action: str) -> None:
        row = task(status=STATUS[action])
        Task._base_manager.update(version=5)
        response = do(boss, action, row)
        assert Task.objects.values_list("version", "claim_at", "cancel_requested_at").get() == (5, row.claim_at, None)
        [message] = messages_of(response)
        assert message.startswith("1 task was left unchanged: it changed since")
        assert not LogEntry.objects.exists()

    def test_what_the_page_would_no_longer_show(self, boss: Client) -> None:
        row, other = task("1", status=TaskStatus.FAILED), task("2", status=TaskStatus.FAILED)
        Task._base_manager.all().delete()
        [message] = messages_of(do(boss, "retry_failed", row, other))
        assert message.startswith("2 tasks were left unchanged: changed since")

    @pytest.mark.parametrize("action", ACTIONS)
    def test_versions_are_not_guessed(self, boss: Client, action: str) -> None:
        row = task(status=STATUS[action])
        boss.post(LIST, {"action": action, "_selected_action": [row.pk]})
        assert Task.objects.get().version == row.version

    @pytest.mark.parametrize("action", ["run_now", "postpone", "retry_failed"])
    def test_running(self, boss: Client, action: str) -> None:
        row = task(status=TaskStatus.RUNNING)
        do(boss, action, row)
        assert Task.objects.values_list("version", "status", "when").get() == (4, TaskStatus.RUNNING, row.when)

    def test_gone(self, boss: Client) -> None:
        row = task()
        Task._base_manager.all().delete()
        assert do(boss, "run_now", row).status_code == 302

    def test_some_of_many(self, boss: Client) -> None:
        rows = [task(str(i)) for i in range(5)]
        Task._base_manager.filter(biz_num__in=["1", "3"]).update(version=9)
        response = do(boss, "run_now", *rows)
        assert list(Task.objects.filter(claim_at=NOW).values_list("biz_num", flat=True)) == ["0", "2", "4"]
        assert [message[:12] for message in messages_of(response)] == ["3 tasks were", "2 tasks were"]

    def test_the_page_says_which_versions_it_shows(self, boss: Client) -> None:
        row = task(version=123)
        assert f'name="seen" value="{row.pk}:123"' in boss.get(LIST).content.decode()

    @pytest.mark.parametrize(
        "mark", ["", "x", "1", "1:", ":1", "-1:2", "1:-2", "1:2:3", "²:1", "1:99999999999999999999"]
    )
    def test_nonsense_in_the_form(self, boss: Client, mark: str) -> None:
        row = task()
        boss.post(LIST, {"action": "run_now", "_selected_action": [row.pk], seen.NAME: [mark]})
        assert Task.objects.get().version == row.version


class TestPermission:
    @pytest.mark.parametrize(
        ("permissions", "offered"),
        [
            (["view"], []),
            (["view", "change"], ["run_now", "postpone", "pause", "resume", "retry_failed"]),
            (["view", "delete"], ["cancel"]),
            (["view", "change", "delete"], ACTIONS),
        ],
    )
    def test_actions(self, client_of: Callable[..., Client], permissions: list[str], offered: list[str]) -> None:
        client = client_of(*permissions)
        rows = {action: task(action, status=STATUS[action]) for action in ACTIONS}
        html = client.get(LIST).content.decode()
        assert [action for action in ACTIONS if f'<option value="{action}">' in html] == offered
        for action, row in rows.items():
            do(client, action, row)
        untouched = Task.objects.filter(version=4, cancel_requested_at=None)
        assert set(untouched.values_list("biz_num", flat=True)) == set(ACTIONS) - set(offered)

    def test_nothing_without_permission(self, client_of: Callable[..., Client]) -> None:
        client = client_of()
        assert client.get(LIST).status_code == 403
        assert do(client, "run_now", task()).status_code == 403

    def test_deleting_is_no_action(self, boss: Client) -> None:
        row = task()
        assert "delete_selected" not in boss.get(LIST).content.decode()
        do(boss, "delete_selected", row)
        assert Task.objects.exists()
