"""The trigger of a task: shown with its next times."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from tests.admin.pages import inputs_of, rows_of, submit
from tests.admin.rows import HOUR, MINUTE, NOW, list_of, page_of, task
from tests.admin.test_task_page import ADD, add, errors_of
from tests.admin.triggers import DAY, EVERY_TEN, NIGHTLY, outlook_of, stored, times_of

pytestmark = pytest.mark.usefixtures("frozen")


class TestPreview:
    def test_shows_ten_times_and_saves_nothing(self, boss: Client) -> None:
        response = add(boss, biz_num="1", trigger_text=NIGHTLY, queue="q", _preview="1")
        assert response.status_code == 200
        head, first, *_, last = times_of(response)
        assert head == ["", "America/New_York", "Europe/Berlin", "UTC"]
        assert first == [
            "1", "Sun 2031-05-18 03:00:00 -04:00", "Sun 2031-05-18 09:00:00 +02:00", "Sun 2031-05-18 07:00:00 +00:00",
        ]  # fmt: skip
        assert last[0] == "10"
        assert outlook_of(response) == "At 03:00 every day (America/New_York)"
        assert inputs_of(response) | {"queue": "q", "trigger_text": NIGHTLY} == inputs_of(response)
        assert not Task.objects.exists()

    def test_begins_with_the_time_that_is_given(self, boss: Client) -> None:
        moment = {"when_0": "2031-05-17", "when_1": "13:00"}
        response = add(boss, trigger_text="Interval(hours=1)", **moment, _preview="1")
        assert [line[1][4:20] for line in times_of(response)[1:4]] == [f"2031-05-17 {hour}:00" for hour in (13, 14, 15)]

    def test_complains_of_nothing_else(self, boss: Client) -> None:
        response = boss.post(ADD, {"trigger_text": EVERY_TEN, "biz_ext": "{", "priority": "x", "_preview": "1"})
        assert not errors_of(response)
        assert len(times_of(response)) == 11

    def test_without_a_trigger(self, boss: Client) -> None:
        response = add(boss, biz_num="1", _preview="1")
        assert not errors_of(response)
        assert not times_of(response)
        assert not Task.objects.exists()

    def test_on_a_tasks_page(self, boss: Client) -> None:
        row = task(trigger="Interval(hours=1)")
        response = submit(boss, page_of(row), "_preview", trigger_text=EVERY_TEN)
        assert times_of(response)[0] == ["", "UTC", "Europe/Berlin"]
        assert times_of(response)[1][1] == "Sat 2031-05-17 09:40:00 +00:00"
        assert stored() == ("Interval(hours=1)", 4)

    def test_is_offered_to_those_who_may_save(self, boss: Client, client_of: Any) -> None:
        row = task(trigger=EVERY_TEN)
        assert 'name="_preview"' in boss.get(page_of(row)).content.decode()
        assert 'name="_preview"' in boss.get(ADD).content.decode()
        assert 'name="_preview"' not in client_of("view").get(page_of(row)).content.decode()


class TestOutlook:
    def first_times(self, client: Client, **fields: Any) -> list[str]:
        """Numbers and times in UTC, in minutes from now."""
        lines = times_of(client.get(page_of(task(**fields))))[1:4]
        moments = [datetime.strptime(line[-1][4:23], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) for line in lines]
        return [f"{line[0]} {(moment - NOW) / MINUTE:g}" for line, moment in zip(lines, moments, strict=True)]

    def test_of_a_task_that_waits(self, boss: Client) -> None:
        found = self.first_times(boss, when=NOW + 3 * MINUTE, trigger="Cron('*/10 * * * *')")
        assert found == ["1 3", "2 10", "3 20"]

    def test_of_an_interval_is_counted_from_its_time(self, boss: Client) -> None:
        assert self.first_times(boss, when=NOW + 3 * MINUTE, trigger="Interval(minutes=10)") == ["1 3", "2 13", "3 23"]

    def test_of_a_task_that_is_due(self, boss: Client) -> None:
        found = self.first_times(boss, when=NOW - 15 * MINUTE, trigger="Interval(minutes=10)")
        assert found == ["due -15", "2 5", "3 15"]

    def test_of_a_paused_task(self, boss: Client) -> None:
        fields = {"when": NOW - 15 * MINUTE, "trigger": "Interval(minutes=10)", "status": TaskStatus.PAUSED}
        assert self.first_times(boss, **fields) == ["1 5", "2 15", "3 25"]
        assert "The task is paused" in outlook_of(boss.get(page_of(Task.objects.get())))

    def test_of_a_running_task(self, boss: Client) -> None:
        row = task(when=NOW, trigger=EVERY_TEN, status=TaskStatus.RUNNING)
        response = boss.get(page_of(row))
        assert times_of(response)[1][1] == "Sat 2031-05-17 09:40:00 +00:00"
        assert "textarea" not in response.content.decode()

    def test_of_a_failed_task(self, boss: Client) -> None:
        row = task(when=NOW - DAY, trigger=EVERY_TEN, status=TaskStatus.FAILED)
        assert "The task has failed" in outlook_of(boss.get(page_of(row)))

    def test_of_a_trigger_that_is_over(self, boss: Client) -> None:
        row = task(trigger="Once('2031-01-01T00:00+00:00')", status=TaskStatus.FAILED)
        assert "It has no more times" in boss.get(page_of(row)).content.decode()

    def test_counted_from_the_end_of_a_run(self, boss: Client) -> None:
        row = task(trigger="Interval(minutes=10, every='finish')")
        assert "These times assume that runs take no time" in outlook_of(boss.get(page_of(row)))

    def test_of_times_that_are_close(self, boss: Client) -> None:
        response = boss.get(page_of(task(when=NOW + HOUR, trigger="Interval(seconds=0.25)")))
        assert times_of(response)[2][2] == "Sat 2031-05-17 10:30:00.250 +00:00"

    def test_with_jitter(self, boss: Client) -> None:
        row = task(trigger="Interval(hours=1, jitter=90)")
        assert "Each run starts up to 1 min 30 s later, at random." in outlook_of(boss.get(page_of(row)))

    def test_for_those_who_only_look(self, client_of: Any) -> None:
        row = task(trigger=EVERY_TEN)
        response = client_of("view").get(page_of(row))
        assert len(times_of(response)) == 11
        assert outlook_of(response) == "Every 10th minute of every hour (UTC)"

    def test_in_the_list(self, boss: Client) -> None:
        task("1", trigger=EVERY_TEN)
        task("2", NOW + 2 * HOUR, trigger=f"Interval(hours=1, misfire='catch_up', limit={'9' * 60})")
        shown = [row["trigger_"] for row in rows_of(boss.get(list_of("task")))]
        assert shown == [EVERY_TEN, f"Interval(hours=1, misfire='catch_up', limit={'9' * 60}"[:59] + "…"]

    def test_of_the_next_schedule(self, boss: Client) -> None:
        fields: dict[str, Any] = {
            "deferred_trigger_text": NIGHTLY,
            "deferred_expires_at": NOW + DAY,
            "deferred_queue": "q",
        }
        row = task(status=TaskStatus.RUNNING, deferred_when=NOW, deferred_priority=1, **fields)
        html = boss.get(page_of(row)).content.decode()
        assert "America/New_York" in html
        assert "2031-05-18 11:30:00" in html
