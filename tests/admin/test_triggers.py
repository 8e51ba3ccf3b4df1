"""The trigger of a task: given when a task is added, changed on its page."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from django_delayed_tasks import clock
from django_delayed_tasks.admin.actions.seen import CHANGED
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.schedules import declare
from tests.admin.pages import inputs_of, messages_of, rows_of, submit
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, list_of, page_of, task
from tests.admin.test_task_page import ADD, add, errors_of
from tests.admin.triggers import DAY, EVERY_TEN, NIGHTLY, SPOILT, outlook_of, stored
from tests.recurring.machine import NOON, Machine

pytestmark = pytest.mark.usefixtures("frozen")


class TestAdd:
    def test_first_time_is_after_now(self, boss: Client) -> None:
        add(boss, biz_num="1", trigger_text='Cron("*/10 * * * *",tz="UTC")')
        row = Task.objects.get()
        assert (row.trigger_text, row.when, row.claim_at) == (EVERY_TEN, NOW + 10 * MINUTE, NOW + 10 * MINUTE)
        assert row.by_handler is None

    @pytest.mark.parametrize(
        ("text", "kept"),
        [("Cron('@daily', tz='UTC')", "Cron('0 0 * * *', tz='UTC')"), ("Interval(weeks=2)", "Interval(days=14)")],
    )
    def test_short_form_is_kept_in_full(self, boss: Client, text: str, kept: str) -> None:
        add(boss, biz_num="1", trigger_text=text)
        row = Task.objects.get()
        assert row.trigger_text == kept
        submit(boss, page_of(row), trigger_text=text)
        assert Task.objects.get().version == row.version  # it is the same trigger

    def test_with_a_first_time_and_an_expiry(self, boss: Client) -> None:
        moments = {"when_0": "2031-05-20", "when_1": "12:00", "expires_at_0": "2031-06-01", "expires_at_1": "00:00"}
        add(boss, biz_num="1", trigger_text="Interval(days=1)", **moments)
        row = Task.objects.get()
        assert (row.when, row.expires_at) == (
            datetime(2031, 5, 20, 10, tzinfo=UTC),
            datetime(2031, 5, 31, 22, tzinfo=UTC),
        )

    @pytest.mark.parametrize("button", ["_save", "_preview"])
    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("Cron('61 * * * *')", "expression='61 * * * *': is not a cron expression"),
            ("Cron('0 3 * * *', tz='Europe/Nowhere')", "tz='Europe/Nowhere': is not a time zone"),
            ("Interval(minutes=0)", "interval='0 seconds'"),
            ("Interval(minutes=-5)", "interval='-300 seconds'"),
            ("Interval(hours=1, misfire='never')", "misfire='never': expected one of"),
            ("Interval(hours=1, start='2031-01-02T00:00Z', end='2031-01-01T00:00Z')", "is before start="),
            ("every day", "trigger='every day': expected for example Cron("),
            ("__import__('os')", "expected for example"),
            ("Interval(minutes=5" + " " * 600 + ")", "at most 500 characters"),
        ],
    )
    def test_what_cannot_be(self, boss: Client, text: str, complaint: str, button: str) -> None:
        response = add(boss, biz_num="1", trigger_text=text, **{button: "1"})
        assert complaint in errors_of(response)["trigger_text"][0]
        assert not Task.objects.exists()

    def test_no_time_left(self, boss: Client) -> None:
        response = add(boss, biz_num="1", trigger_text="Once('2031-05-17T09:30Z')")
        assert "has no time after now" in errors_of(response)["trigger_text"][0]

    def test_time_passes_between_looking_and_writing(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        from django_delayed_tasks.admin.tasks import forms

        monkeypatch.setattr(forms, "check_has_time", lambda *args: None)
        response = add(boss, biz_num="1", trigger_text="Once('2031-05-17T09:30Z')")
        assert "has no time after now" in messages_of(response)[0]
        assert not Task.objects.exists()

    def test_naive_expiry_is_in_the_projects_zone_and_in_range(self, boss: Client) -> None:
        response = add(boss, biz_num="1", expires_at_0="9999-12-31", expires_at_1="23:59")
        assert "out of range: from 1000-01-02 to 9999-12-30" in errors_of(response)["expires_at"][0]


class TestOnce:
    def test_added_so(self, boss: Client) -> None:
        add(boss, biz_num="1", once_only="on")
        assert Task.objects.get().once
        assert "Once only" in boss.get(page_of(Task.objects.get())).content.decode()

    def test_cannot_recur(self, boss: Client) -> None:
        response = add(boss, biz_num="1", once_only="on", trigger_text=EVERY_TEN)
        assert "recurring task" in errors_of(response)["once_only"][0]

    def test_nor_later(self, boss: Client) -> None:
        row = task(once=True)
        response = submit(boss, page_of(row), trigger_text=EVERY_TEN)
        assert "runs once only" in errors_of(response)["trigger_text"][0]
        assert Task.objects.get().trigger_text is None

    def test_done_already(self, boss: Client) -> None:
        from django_delayed_tasks.models import Success

        Success.objects.create(biz_code=CODE, biz_num="1", succeeded_at=NOW)
        response = add(boss, biz_num="1", once_only="on")
        assert "has succeeded before" in messages_of(response)[0]
        assert not Task.objects.exists()


class TestChange:
    def change(self, client: Client, row: Task, **values: str) -> Task:
        response = submit(client, page_of(row), **values)
        assert response.status_code == 302, errors_of(response)
        return Task.objects.get(pk=row.pk)

    def test_never_fires_for_a_moment_before_it_existed(self, boss: Client) -> None:
        row = task(when=NOW + DAY, trigger=NIGHTLY, biz_ext={"last": 7}, attempts=2)
        changed = self.change(boss, row, trigger_text="Cron('*/10 * * * *', tz=\"UTC\")")
        assert (changed.trigger_text, changed.when, changed.claim_at) == (
            EVERY_TEN,
            NOW + 10 * MINUTE,
            NOW + 10 * MINUTE,
        )
        assert (changed.version, changed.attempts, changed.biz_ext) == (5, 0, {"last": 7})

    def test_with_a_first_time(self, boss: Client) -> None:
        changed = self.change(boss, task(), trigger_text="Interval(hours=1)", when_1="14:00:00", queue="q")
        assert (changed.when, changed.queue) == (NOW + 2.5 * HOUR, "q")

    def test_the_same_otherwise_written_is_the_same(self, boss: Client) -> None:
        row = task(when=NOW + 7 * MINUTE, trigger="Interval(hours=1, minutes=30)")
        changed = self.change(boss, row, trigger_text="Interval(minutes=90)")
        assert (changed.version, changed.when) == (4, NOW + 7 * MINUTE)

    def test_taken_away(self, boss: Client) -> None:
        changed = self.change(boss, task(trigger=EVERY_TEN), trigger_text="")
        assert (changed.trigger_text, changed.when, changed.version) == (None, NOW + HOUR, 5)

    def test_of_a_paused_task_which_stays_paused(self, boss: Client) -> None:
        row = task(trigger=NIGHTLY, status=TaskStatus.PAUSED)
        changed = self.change(boss, row, trigger_text=EVERY_TEN)
        assert (changed.status, changed.when) == (TaskStatus.PAUSED, NOW + 10 * MINUTE)
        assert changed.version > row.version

    def test_of_a_failed_task_which_waits_again(self, boss: Client) -> None:
        row = task(when=NOW - DAY, trigger=NIGHTLY, status=TaskStatus.FAILED, last_error="oh")
        preview = submit(boss, page_of(row), "_preview", trigger_text=EVERY_TEN)
        assert "it waits for the first of these times" in outlook_of(preview)
        changed = self.change(boss, row, trigger_text=EVERY_TEN)
        assert (changed.status, changed.when, changed.last_error) == (TaskStatus.PENDING, NOW + 10 * MINUTE, "")

    def test_expiry_leaves_the_time(self, boss: Client) -> None:
        row = task(once=True)
        changed = self.change(boss, row, expires_at_0="2031-06-01", expires_at_1="00:00")
        assert (changed.when, changed.once, changed.version) == (NOW + HOUR, True, 5)
        assert changed.expires_at == datetime(2031, 5, 31, 22, tzinfo=UTC)
        assert self.change(boss, changed, expires_at_0="", expires_at_1="").expires_at is None

    @pytest.mark.parametrize("text", ["Cron('61 * * * *')", "Once('2031-01-01T00:00Z')"])
    def test_what_cannot_be(self, boss: Client, text: str) -> None:
        response = submit(boss, page_of(task(trigger=NIGHTLY)), trigger_text=text)
        assert list(errors_of(response)) == ["trigger_text"]
        assert inputs_of(response)["trigger_text"] == text
        assert stored() == (NIGHTLY, 4)

    def test_needs_the_permission(self, client_of: Any) -> None:
        row = task(trigger=NIGHTLY)
        client = client_of("view", "add", "delete")
        response = client.post(page_of(row), {"seen": f"{row.pk}:4", "trigger_text": EVERY_TEN, "_save": "1"})
        assert response.status_code == 403
        assert Task.objects.get().trigger_text == NIGHTLY


def test_what_a_changed_trigger_fires(boss: Client) -> None:
    """Missed times of the old one are forgotten, and none of the new one is older than the change."""
    machine = Machine()
    machine.add("Interval(minutes=10)")
    with clock.frozen_at(NOON + 25 * MINUTE):
        submit(boss, page_of(Task.objects.get()), trigger_text=EVERY_TEN)
    assert [machine.run_at(minute) is None for minute in (25, 29, 30, 31)] == [True, True, False, True]
    assert ([when for when, _ in machine.seen], machine.next) == ([30], 40)


class TestConflict:
    def test_changed_meanwhile(self, boss: Client) -> None:
        row = task(trigger=NIGHTLY)
        form = inputs_of(boss.get(page_of(row)))
        Task._base_manager.update(version=5)
        response = boss.post(page_of(row), {**form, "trigger_text": EVERY_TEN, "_save": "1"})
        assert errors_of(response) == {"__all__": [str(CHANGED)]}
        assert inputs_of(response)["trigger_text"] == EVERY_TEN
        assert Task.objects.get().trigger_text == NIGHTLY

    @pytest.mark.parametrize("change", [{"version": 5}, {"status": TaskStatus.RUNNING}])
    def test_between_looking_and_writing(
        self, boss: Client, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
    ) -> None:
        from django_delayed_tasks.admin.tasks import writes

        row, replace = task(trigger=NIGHTLY), writes.replace

        def overtaken(*args: Any) -> Any:
            Task._base_manager.update(**change)
            return replace(*args)

        monkeypatch.setattr(writes, "replace", overtaken)
        response = submit(boss, page_of(row), trigger_text=EVERY_TEN)
        assert messages_of(response) == [str(CHANGED)]
        assert Task.objects.get().trigger_text == NIGHTLY


class TestByHandler:
    def declared(self, text: str = NIGHTLY, queue: str = "shop") -> Task:
        declare.declare("default", [declare.DeclaredTask(CODE, text, queue, 7)])
        return Task.objects.get(biz_code=CODE, biz_num=declare.NUM)

    def test_is_said(self, boss: Client) -> None:
        html = boss.get(page_of(self.declared())).content.decode()
        assert "the declaration no longer changes this task" in html
        assert "the declaration no longer changes this task" not in boss.get(page_of(task())).content.decode()
        assert "creates the task again" in boss.get(page_of(self.declared(), "delete")).content.decode()

    def test_with_another_trigger_it_is_the_persons(self, boss: Client) -> None:
        submit(boss, page_of(self.declared()), trigger_text=EVERY_TEN)
        row = self.declared("Interval(hours=5)")
        assert (row.trigger_text, row.by_handler, row.when) == (EVERY_TEN, None, NOW + 10 * MINUTE)

    def test_with_other_data_it_stays_the_handlers(self, boss: Client) -> None:
        submit(boss, page_of(self.declared()), biz_ext="7", queue="q")
        assert Task.objects.values_list("biz_ext", "queue", "by_handler").get() == (7, "q", True)
        row = self.declared()  # the next executor starts
        assert (row.biz_ext, row.queue) == (7, "shop")


@pytest.mark.parametrize("status", TaskStatus)
class TestUnreadable:
    @pytest.fixture
    def row(self, status: TaskStatus, db: None) -> Task:
        return task(trigger=SPOILT, status=status)

    def test_is_listed_and_shown(self, boss: Client, row: Task) -> None:
        assert rows_of(boss.get(list_of("task")))[0]["trigger_"] == SPOILT
        response = boss.get(page_of(row))
        assert "This text is not a valid trigger" in outlook_of(response)
        assert "expression='61 3 * * <b>': is not a cron expression" in outlook_of(response)
        assert "<b>" not in response.content.decode()

    def test_no_button_breaks(self, boss: Client, row: Task) -> None:
        for button in ("_run_now", "_postpone", "_pause", "_resume", "_retry_failed"):
            current = Task.objects.get()
            response = boss.post(page_of(row), {"seen": f"{row.pk}:{current.version}", button: "1"})
            assert response.status_code == 302
        boss.post(page_of(row, "delete"), {"post": "yes", "seen": f"{row.pk}:{Task.objects.get().version}"})
        assert Task.objects.filter(cancel_requested_at=None).count() == 0


@pytest.mark.parametrize("status", [TaskStatus.PENDING, TaskStatus.FAILED, TaskStatus.PAUSED])
def test_unreadable_can_be_mended(boss: Client, status: TaskStatus) -> None:
    row = task(trigger=SPOILT, status=status)
    submit(boss, page_of(row), queue="mail")
    assert (Task.objects.get().queue, stored()[0]) == ("mail", SPOILT)
    submit(boss, page_of(row), expires_at_0="2031-06-01", expires_at_1="00:00")
    assert Task.objects.get().trigger_text == SPOILT
    submit(boss, page_of(row), trigger_text=EVERY_TEN)
    row = Task.objects.get()
    assert (row.trigger_text, row.when, row.queue) == (EVERY_TEN, NOW + 10 * MINUTE, "mail")


HOSTILE = [
    "Interval(seconds=1e400)", "Interval(days=" + "9" * 400 + ")", "Interval(days=36525)", "Interval(seconds=0.001)",
    "Once('9999-12-31T23:59:59+00:00')", "Once('0001-01-01T00:00+14:00')", "Once('9999-12-31T23:59:59-14:00')",
    "Cron('0 0 1 1 *', start='9998-01-01T00:00+00:00')", "Cron('0 0 29 2 1#5')", "Cron('* * * * * *', jitter=1e9)",
    "Cron('0 3 * * *', tz='../../etc/passwd')", "Cron('0 3 * * *', tz='\\x00')", "Cron('\\ud800 3 * * *')",
    "Cron(" * 90, "[" * 400, "Cron('0 3 * * *', **{})", "Cron(*'a')", "Interval(minutes=True)", "Once(None)",
    "<script>alert(1)</script>", "Cron('<script>alert(1)</script>')", "\0", "Interval(minutes=5)\n\n", "lambda: 1",
    "Interval(minutes=5, minutes=6)", "Cron('0 3 * * *', start='<img src=x>')", "{{ 7|add:7 }}",
]  # fmt: skip


def test_hostile_texts(boss: Client) -> None:
    for number, text in enumerate(HOSTILE):
        for button in ("_preview", "_save"):
            response = add(boss, biz_num=str(number), trigger_text=text, **{button: "1"})
            assert response.status_code in (200, 302), text
            html = response.content.decode()
            assert "<script>alert(1)" not in html
            assert "<img src=x" not in html
    assert Task.objects.count() > 5
    for address in (list_of("task"), *map(page_of, Task.objects.all())):
        assert boss.get(address).status_code == 200, address


def test_an_address_may_fill_it_in(boss: Client) -> None:
    response = boss.get(ADD, {"trigger_text": EVERY_TEN})
    assert inputs_of(response)["trigger_text"] == EVERY_TEN
