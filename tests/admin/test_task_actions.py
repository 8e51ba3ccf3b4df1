"""A task's page: its buttons, cancelling, and what it shows of a task that cannot be edited."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from django_delayed_tasks import pause_queue
from django_delayed_tasks.admin.actions.seen import CHANGED
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.triggers import Interval
from tests.admin.pages import inputs_of, messages_of, submit
from tests.admin.rows import CODE, HOUR, NOW, OTHER, TRACEBACK, page_of, task

ALL = ("_run_now", "_postpone", "_pause", "_resume", "_retry_failed")

pytestmark = pytest.mark.usefixtures("frozen")


class TestRunning:
    def test_is_shown_and_not_edited(self, boss: Client) -> None:
        row = task(status=TaskStatus.RUNNING, biz_ext={"a": "<i>"}, deferred_when=NOW + HOUR, deferred_biz_ext={"b": 2})
        html = boss.get(page_of(row)).content.decode()
        assert "This task is running" in html
        assert "&lt;i&gt;" in html
        assert "Next schedule" in html
        assert 'name="queue"' not in html
        assert 'name="_save"' not in html

    @pytest.mark.parametrize(("keeps", "shown"), [(None, "carried"), (True, "set by this run")])
    def test_the_data_of_its_next_run(self, boss: Client, keeps: bool | None, shown: str) -> None:
        deferred: dict[str, Any] = {"deferred_when": NOW + HOUR, "deferred_biz_ext": "carried"}
        html = boss.get(page_of(task(status=TaskStatus.RUNNING, deferred_keeps_ext=keeps, **deferred))).content.decode()
        assert {text for text in ("carried", "set by this run") if text in html} == {shown}


class TestButtons:
    @pytest.mark.parametrize(
        ("status", "offered"),
        [
            (TaskStatus.PENDING, {"_run_now", "_postpone", "_pause"}),
            (TaskStatus.RUNNING, {"_pause"}),
            (TaskStatus.FAILED, {"_retry_failed"}),
            (TaskStatus.PAUSED, {"_resume"}),
        ],
    )
    def test_offered(self, boss: Client, status: TaskStatus, offered: set[str]) -> None:
        html = boss.get(page_of(task(status=status))).content.decode()
        assert {name for name in ALL if f'name="{name}"' in html} == offered

    def test_of_a_task_that_will_be_paused(self, boss: Client) -> None:
        row = task(status=TaskStatus.RUNNING, pause_requested=True)
        html = boss.get(page_of(row)).content.decode()
        assert {name for name in ALL if f'name="{name}"' in html} == {"_resume"}
        boss.post(page_of(row), {"seen": f"{row.pk}:4", "_resume": "1"})
        assert Task.objects.get().pause_requested is None

    def test_of_a_task_that_runs_for_the_last_time(self, boss: Client) -> None:
        """There is nothing left that could be paused; the next schedule could be, if there is one."""
        row = task(status=TaskStatus.RUNNING, cancel_requested_at=NOW)
        assert "_pause" not in boss.get(page_of(row)).content.decode()
        boss.post(page_of(row), {"seen": f"{row.pk}:4", "_pause": "1"})
        assert Task.objects.get().pause_requested is None
        Task._base_manager.update(deferred_when=NOW + HOUR)
        assert "_pause" in boss.get(page_of(row)).content.decode()

    def test_resumed_for_another_time(self, boss: Client) -> None:
        """What the retries of a time that has passed have counted is not counted for the next one."""
        when, trigger = NOW - HOUR, Interval(hours=3)
        row = task(status=TaskStatus.PAUSED, when=when, trigger=trigger, attempts=2, rescues=1, last_error="no")
        submit(boss, page_of(row), "_resume")
        found = Task.objects.values_list("when", "attempts", "rescues", "last_error").get()
        assert found == (NOW + 2 * HOUR, 0, 0, "")

    def test_pause_and_resume(self, boss: Client) -> None:
        row = task(when=NOW + HOUR)
        submit(boss, page_of(row), "_pause")
        assert Task.objects.get().status == TaskStatus.PAUSED
        submit(boss, page_of(row), "_resume")
        assert Task.objects.values_list("status", "when").get() == (TaskStatus.PENDING, NOW + HOUR)

    def test_that_the_queue_is_paused_is_said(self, boss: Client) -> None:
        row = task(queue="<b>")
        assert "is paused" not in boss.get(page_of(row)).content.decode()
        pause_queue("<b>")
        assert "Its queue, “<bdi>&lt;b&gt;</bdi>”, is paused" in boss.get(page_of(row)).content.decode()

    @pytest.mark.parametrize(("button", "claim_at"), [("_run_now", NOW), ("_postpone", NOW + 2 * HOUR)])
    def test_pressed(self, boss: Client, button: str, claim_at: Any) -> None:
        row = task()
        assert submit(boss, page_of(row), button).url == page_of(row)
        assert Task.objects.get().claim_at == claim_at

    def test_retry(self, boss: Client) -> None:
        row = task(status=TaskStatus.FAILED)
        submit(boss, page_of(row), "_retry_failed")
        assert Task.objects.get().status == TaskStatus.PENDING

    def test_fenced(self, boss: Client) -> None:
        row = task()
        form = inputs_of(boss.get(page_of(row)))
        Task._base_manager.update(version=5)
        boss.post(page_of(row), {**form, "_run_now": "1"})
        assert Task.objects.get().version == 5

    def test_need_the_permission(self, client_of: Callable[..., Client]) -> None:
        row = task()
        client = client_of("view", "delete")
        assert "_run_now" not in client.get(page_of(row)).content.decode()
        response = client.post(page_of(row), {"seen": f"{row.pk}:4", "_run_now": "1"})
        assert response.status_code == 403
        assert Task.objects.get().version == 4


class TestCancel:
    def confirm(self, client: Client, row: Task) -> Any:
        page = page_of(row, "delete")
        assert f'value="{row.pk}:4"' in client.get(page).content.decode()
        return client.post(page, {"post": "yes", "seen": f"{row.pk}:4"})

    def test_leaves_a_history(self, boss: Client) -> None:
        row = task("A-1")
        response = self.confirm(boss, row)
        assert messages_of(response) == [f"“{CODE} A-1” was cancelled."]
        assert not Task.objects.exists()
        assert TaskRun.objects.get().outcome == RunOutcome.CANCELLED

    def test_running_is_asked_to_stop(self, boss: Client) -> None:
        row = task(status=TaskStatus.RUNNING)
        response = self.confirm(boss, row)
        assert "asked to stop" in messages_of(response)[0]
        assert Task.objects.get().cancel_requested_at == NOW

    def test_changed_meanwhile(self, boss: Client) -> None:
        row = task()
        Task._base_manager.update(version=5)
        response = boss.post(page_of(row, "delete"), {"post": "yes", "seen": f"{row.pk}:4"})
        assert messages_of(response) == [str(CHANGED)]
        assert Task.objects.get().version == 5

    def test_needs_the_permission(self, client_of: Callable[..., Client]) -> None:
        row = task()
        client = client_of("view", "change")
        assert client.post(page_of(row, "delete"), {"post": "yes", "seen": f"{row.pk}:4"}).status_code == 403
        assert "Cancel task" not in client.get(page_of(row)).content.decode()
        assert Task.objects.exists()


class TestLooks:
    def test_traceback_is_escaped(self, boss: Client) -> None:
        html = boss.get(page_of(task(status=TaskStatus.FAILED, last_error=TRACEBACK))).content.decode()
        assert '<pre class="ddt-pre">Traceback (most recent call last):\n  File &quot;x.py&quot;' in html
        assert "ValueError: &lt;b&gt;no &amp; never&lt;/b&gt;</pre>" in html

    def test_runs_of_the_identity(self, boss: Client) -> None:
        row = task("A&1", biz_code=OTHER)
        address = f"?biz_code__exact={OTHER}&amp;biz_num__exact=A%261"
        assert address in boss.get(page_of(row)).content.decode()

    def test_only_looking(self, client_of: Callable[..., Client]) -> None:
        html = client_of("view").get(page_of(task(biz_ext={"a": 1}))).content.decode()
        assert "&quot;a&quot;: 1" in html
        assert "<textarea" not in html

    def test_gone(self, boss: Client) -> None:
        row = task()
        Task._base_manager.all().delete()
        assert boss.get(page_of(row)).status_code == 302
        assert boss.post(page_of(row), {"_save": "1"}).status_code == 302
        assert boss.post(page_of(row, "delete"), {"post": "yes"}).status_code == 302
