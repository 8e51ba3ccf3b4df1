"""A task's page: adding, changing, cancelling."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import reverse

from django_delayed_tasks.admin.actions.seen import CHANGED
from django_delayed_tasks.admin.tasks import writes
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from tests.admin.pages import inputs_of, messages_of, submit
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, executor, page_of, task

ADD = reverse("admin:django_delayed_tasks_task_add")

pytestmark = pytest.mark.usefixtures("frozen")


def errors_of(response: Any) -> dict[str, list[str]]:
    """What the form complains about."""
    return dict(response.context["errors"] and response.context["adminform"].form.errors)


def add(client: Client, **values: str) -> Any:
    """Fill in the form that adds a task."""
    empty = dict.fromkeys(("biz_num", "when_0", "when_1", "biz_ext", "queue", "priority"), "")
    return client.post(ADD, {**empty, "biz_code": CODE, **values})


class TestAdd:
    def test_with_everything(self, boss: Client) -> None:
        values = {
            "when_0": "2031-05-20",
            "when_1": "12:00:00",
            "biz_ext": '{"a": [1, "é"]}',
            "queue": "q",
            "priority": "-5",
        }
        add(boss, biz_num="A-1", **values)
        row = Task.objects.get(biz_code=CODE, biz_num="A-1")
        assert (row.when.isoformat(), row.claim_at) == ("2031-05-20T10:00:00+00:00", row.when)  # Berlin's noon
        assert (row.biz_ext, row.queue, row.priority, row.status) == ({"a": [1, "é"]}, "q", -5, TaskStatus.PENDING)

    def test_with_the_handlers_defaults(self, boss: Client) -> None:
        add(boss, biz_num="A-1")
        row = Task.objects.get()
        assert (row.when, row.biz_ext, row.queue, row.priority) == (NOW, None, "shop", 7)

    def test_a_time_in_the_past_is_pointed_out(self, boss: Client) -> None:
        add(boss, biz_num="A-1", when_0="2024-05-20", when_1="12:00:00")
        row = Task.objects.get()
        said = "The task is due at once: its time was "
        assert said in boss.get(page_of(row)).content.decode()
        submit(boss, page_of(row), when_0="2023-05-20")
        assert said in boss.get(page_of(row)).content.decode()
        submit(boss, page_of(row), queue="mail")
        assert said not in boss.get(page_of(row)).content.decode()

    def test_priority_zero_is_not_the_default(self, boss: Client) -> None:
        add(boss, biz_num="A-1", priority="0")
        assert Task.objects.get().priority == 0

    @pytest.mark.parametrize(
        ("field", "value", "complaint"),
        [
            ("biz_num", "", "required"),
            ("biz_num", "x" * 256, "at most 255 characters"),
            ("biz_code", "unknown", "not one of the available choices"),
            ("biz_ext", "{", "valid JSON"),
            ("biz_ext", '{"a": NaN}', "not JSON"),
            ("biz_ext", '"\\u0000"', "nul"),
            ("biz_ext", '"\\ud800"', "lone surrogate"),
            ("biz_ext", json.dumps("x" * 70_000), "65,536 at most"),
            ("priority", "101", "from -100 to 100"),
            ("priority", "x", "whole number"),
            ("queue", "q" * 51, "at most 50 characters"),
        ],
    )
    def test_what_cannot_be_accepted(self, boss: Client, field: str, value: str, complaint: str) -> None:
        response = add(boss, **{"biz_num": "A-1", field: value})
        assert complaint.lower() in " ".join(errors_of(response)[field]).lower()
        assert not Task.objects.exists()

    @pytest.mark.parametrize("when", [("0001-01-01", "12:00"), ("9999-12-31", "23:59")])
    def test_when_out_of_range(self, boss: Client, when: tuple[str, str]) -> None:
        response = add(boss, biz_num="A-1", when_0=when[0], when_1=when[1])
        assert "when" in errors_of(response)

    def test_existing_task_is_not_replaced(self, boss: Client) -> None:
        row = task("A-1")
        response = add(boss, biz_num="A-1")
        assert "already exists" in str(errors_of(response))
        assert Task.objects.get().version == row.version

    def test_unknown_codes_if_allowed(self, boss: Client) -> None:
        with override_settings(DELAYED_TASKS={"ALLOW_UNKNOWN_CODES": True}):
            add(boss, biz_code="any", biz_num="A-1")
        assert Task.objects.get().biz_code == "any"

    def test_needs_the_permission(self, client_of: Callable[..., Client]) -> None:
        client = client_of("view", "change", "delete")
        assert client.get(ADD).status_code == 403
        assert add(client, biz_num="A-1").status_code == 403
        assert not Task.objects.exists()


class TestChange:
    @pytest.mark.parametrize(
        ("changes", "column", "value"),
        [
            ({"biz_ext": '{"b": 2}'}, "biz_ext", {"b": 2}),
            ({"biz_ext": ""}, "biz_ext", None),
            ({"queue": "mail"}, "queue", "mail"),
            ({"priority": "-9"}, "priority", -9),
        ],
    )
    def test_one_field(self, boss: Client, changes: dict[str, str], column: str, value: Any) -> None:
        row = task(when=NOW - HOUR, claim_at=NOW + MINUTE, biz_ext={"a": 1}, attempts=2, last_error="oh")
        response = submit(boss, page_of(row), **changes)
        assert response.status_code == 302
        row.refresh_from_db()
        assert (getattr(row, column), row.version) == (value, 5)
        assert (row.claim_at, row.attempts, row.last_error) == (NOW + MINUTE, 2, "oh")  # the back-off continues

    def test_when(self, boss: Client) -> None:
        row = task(when=NOW + timedelta(seconds=1.5), biz_ext="kept")
        submit(boss, page_of(row), when_1="14:00:00")
        row.refresh_from_db()
        assert (row.when, row.claim_at) == (NOW + 2.5 * HOUR, NOW + 2.5 * HOUR)
        assert (row.biz_ext, row.version) == ("kept", 5)

    @pytest.mark.parametrize(
        ("text", "away"),
        [
            ("in 30 minutes", 30 * MINUTE), ("2h", 2 * HOUR), ("1 day 6 hours", 30 * HOUR), ("90 s", 1.5 * MINUTE),
            ("1.5 h", 1.5 * HOUR), ("30 分钟后", 30 * MINUTE), ("In 1 week, 1 d", 192 * HOUR), ("0 s", 0 * HOUR),
            ("45 mins ago", -45 * MINUTE),
        ],
    )  # fmt: skip
    def test_when_as_an_offset(self, boss: Client, text: str, away: timedelta) -> None:
        row = task()
        assert submit(boss, page_of(row), when_2=text).status_code == 302
        assert Task.objects.values_list("when", "version").get() == (NOW + away, 5)

    @pytest.mark.parametrize("text", ["soon", "30", "in", "3 h 2 h", "--5 min", "1 h x", "9" * 6 + " weeks"])
    def test_when_as_an_offset_that_is_none(self, boss: Client, text: str) -> None:
        row = task()
        assert "when" in errors_of(submit(boss, page_of(row), when_2=text))
        assert Task.objects.get().version == 4

    def test_nothing(self, boss: Client) -> None:
        row = task(when=NOW + timedelta(seconds=1.5), biz_ext={"a": [1, None, "é"]})
        assert submit(boss, page_of(row)).status_code == 302
        assert Task.objects.values_list("version", "when").get() == (4, row.when)

    def test_failed_stays_failed(self, boss: Client) -> None:
        row = task(status=TaskStatus.FAILED, last_error="oh")
        submit(boss, page_of(row), biz_ext="1")
        row.refresh_from_db()
        assert (row.status, row.biz_ext, row.last_error) == (TaskStatus.FAILED, 1, "oh")

    def test_data_is_set_out_on_lines(self, boss: Client) -> None:
        row = task(biz_ext={"a": ["é", "<b>"]})
        assert inputs_of(boss.get(page_of(row)))["biz_ext"] == '{\n  "a": [\n    "é",\n    "<b>"\n  ]\n}'

    @pytest.mark.parametrize(
        ("field", "value"), [("priority", "1000"), ("queue", ""), ("biz_ext", "[NaN]"), ("when_0", "0001-01-01")]
    )
    def test_what_cannot_be_accepted(self, boss: Client, field: str, value: str) -> None:
        row = task()
        response = submit(boss, page_of(row), **{field: value})
        assert list(errors_of(response)) == [field.removesuffix("_0")]
        assert Task.objects.get().version == 4

    @pytest.mark.parametrize(
        "changes", [{"expires_at_0": "2031-05-17", "expires_at_1": "00:00"}, {"when_0": "2031-05-20"}]
    )
    def test_a_time_after_its_expiry(self, boss: Client, changes: dict[str, str]) -> None:
        row = task(expires_at=NOW + 24 * HOUR)
        response = submit(boss, page_of(row), **changes)
        assert "it could never start" in errors_of(response)["expires_at"][0]
        assert Task.objects.get().version == 4
        assert submit(boss, page_of(row), when_0="2031-05-20", expires_at_0="2031-05-21").status_code == 302

    def test_of_a_code_without_handler(self, boss: Client) -> None:
        row = task(biz_code="from another release")
        assert submit(boss, page_of(row), priority="3").status_code == 302
        assert Task.objects.get().priority == 3

    def test_columns_of_the_machinery_are_read_only(self, boss: Client) -> None:
        row = task(status=TaskStatus.FAILED)
        assert set(inputs_of(boss.get(page_of(row)))) == {
            "csrfmiddlewaretoken", "seen", "when_0", "when_1", "when_2", "biz_ext", "queue", "priority", "trigger_text",
            "expires_at_0", "expires_at_1",
        }  # fmt: skip
        submit(
            boss, page_of(row), priority="1", status="0", claim_at="2031-01-01", version="9", biz_num="2", attempts="9"
        )
        row.refresh_from_db()
        assert (row.status, row.claim_at, row.version, row.biz_num, row.attempts) == (2, NOW + HOUR, 5, "1", 0)


class TestConflict:
    def test_changed_meanwhile_keeps_what_was_typed(self, boss: Client) -> None:
        row = task()
        form = inputs_of(boss.get(page_of(row)))
        Task._base_manager.update(version=5)
        for _ in range(2):  # pressing the button again does not help
            response = boss.post(page_of(row), {**form, "queue": "typed", "_save": "1"})
            assert errors_of(response) == {"__all__": [str(CHANGED)]}
            form = inputs_of(response)
            assert form["queue"] == "typed"
        assert Task.objects.values_list("version", "queue").get() == (5, "default")

    def test_changed_between_looking_and_writing(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        row, edit = task(), writes.edit

        def overtaken(*args: Any) -> None:
            Task._base_manager.update(version=5)
            edit(*args)

        monkeypatch.setattr(writes, "edit", overtaken)
        response = submit(boss, page_of(row), queue="mail")
        assert messages_of(response) == [str(CHANGED)]
        assert Task.objects.get().queue == "default"

    def test_runs_meanwhile(self, boss: Client) -> None:
        row = task()
        form = inputs_of(boss.get(page_of(row)))
        Task._base_manager.update(status=TaskStatus.RUNNING, version=5)
        response = boss.post(page_of(row), {**form, "queue": "mail", "_save": "1"})
        assert response.status_code == 302
        assert messages_of(response) == [str(CHANGED)]
        assert Task.objects.get().queue == "default"

    def test_without_the_version(self, boss: Client) -> None:
        row = task()
        form = inputs_of(boss.get(page_of(row)))
        del form["seen"]
        response = boss.post(page_of(row), {**form, "queue": "mail", "_save": "1"})
        assert errors_of(response) == {"__all__": [str(CHANGED)]}

    def test_added_by_another_caller_meanwhile(self, boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        task("A-1")
        monkeypatch.setattr(Task, "validate_constraints", lambda *args, **kwargs: None)  # it came a moment later
        response = add(boss, biz_num="A-1")
        assert response.status_code == 302
        assert "exists already" in messages_of(response)[0]
        assert Task.objects.get().version == 4


def test_it_names_the_executor(boss: Client) -> None:
    row = task("A-1", status=TaskStatus.RUNNING, executor=executor("web2").pk)
    assert "<bdi>web2</bdi></a>, attempt 0." in boss.get(page_of(row)).content.decode()


@pytest.mark.parametrize(
    ("status", "label", "other"),
    [
        (TaskStatus.PENDING, "Claimable from:", "Failed at:"),
        (TaskStatus.FAILED, "Failed at:", "Claimable from:"),
    ],
)
def test_details_name_the_moment_of_a_failure(boss: Client, status: TaskStatus, label: str, other: str) -> None:
    html = boss.get(page_of(task(status=status, claim_at=NOW - MINUTE))).content.decode()
    assert label in html
    assert other not in html


def test_the_page_that_cancels_says_so_in_its_breadcrumbs(boss: Client) -> None:
    html = boss.get(page_of(task(), "delete")).content.decode()
    assert '<li aria-current="page">Cancel</li>' in html
    assert "Delete" not in html


@pytest.fixture
def in_lord_howe() -> Iterator[None]:
    """Forms show and take the local time of Lord Howe Island."""
    with override_settings(TIME_ZONE="Australia/Lord_Howe"):
        yield


@pytest.mark.usefixtures("in_lord_howe")
class TestTimesThatComeTwiceOrNever:
    """In Lord Howe, clocks show 01:30 to 02:00 twice on 2031-04-06, and do not show 02:00 to 02:30 on 2031-10-05."""

    TWICE = datetime(2031, 4, 5, 15, 15, 7, 123456, tzinfo=UTC)  # the second time

    @pytest.mark.parametrize("local", [("2031-04-06", "01:45"), ("2031-10-05", "02:15")])
    @pytest.mark.parametrize("field", ["when", "expires_at"])
    def test_typed_they_are_refused(self, boss: Client, field: str, local: tuple[str, str]) -> None:
        response = add(boss, biz_num="1", **{f"{field}_0": local[0], f"{field}_1": local[1]})
        assert "may be ambiguous or it may not exist" in str(errors_of(response)[field])
        row = task()
        response = submit(boss, page_of(row), **{f"{field}_0": local[0], f"{field}_1": local[1]})
        assert "may be ambiguous or it may not exist" in str(errors_of(response)[field])

    def test_unchanged_they_are_kept(self, boss: Client) -> None:
        row = task(when=self.TWICE, expires_at=self.TWICE)
        assert submit(boss, page_of(row), queue="mail").status_code == 302
        changed = Task.objects.get()
        assert (changed.when, changed.expires_at, changed.queue) == (self.TWICE, self.TWICE, "mail")

    def test_an_offset_from_now_replaces_them(self, boss: Client) -> None:
        row = task(when=self.TWICE)
        assert submit(boss, page_of(row), when_2="in 2 h").status_code == 302
        assert Task.objects.get().when == NOW + 2 * HOUR

    def test_an_offset_of_more_than_a_hundred_years_is_refused(self, boss: Client) -> None:
        response = add(boss, biz_num="1", when_2="in 36601 days")
        assert "more than a hundred years" in str(errors_of(response)["when"])
