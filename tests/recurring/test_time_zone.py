"""The project's ``TIME_ZONE`` changes while recurring tasks wait: executors give them their times in the new zone."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from django_delayed_tasks import Task, add_task, api
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.executor.membership.recurrences import Recurrences
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.models import Overview
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.schedules import zones
from django_delayed_tasks.triggers import Cron, Interval, parse
from django_delayed_tasks.triggers.zones import rezoned
from tests.executor.parts import drain, handler_of
from tests.recurring.machine import MINUTE, NOON

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SHANGHAI = "Asia/Shanghai"
AT_THREE = Cron("0 3 * * *")


@pytest.fixture(autouse=True)
def utc(settings: Any) -> Iterator[None]:
    settings.TIME_ZONE = "UTC"
    with registry.preserved():
        registry.clear()
        yield


def start_in(settings: Any, zone: str, moment: datetime = NOON) -> Recurrences:
    """An executor starts with this setting."""
    settings.TIME_ZONE = zone
    with frozen_at(moment):
        recurrences = Recurrences("default")
        recurrences.declare()
    return recurrences


def shown(zone: str, code: str) -> str:
    """Return when the task of this code is due, as a clock in the zone shows it."""
    when: Any = TaskRow.objects.get(biz_code=code).when
    return f"{when.astimezone(ZoneInfo(zone)):%d %H:%M}"


def test_tasks_of_handlers_and_of_callers(settings: Any) -> None:
    handler_of(lambda task: None, "handler", trigger=AT_THREE)
    handler_of(lambda task: None, "text", trigger="Cron('0 3 * * *')")
    handler_of(lambda task: None, "own")
    handler_of(lambda task: None, "paused", trigger=AT_THREE)
    start_in(settings, "UTC")
    with frozen_at(NOON):
        add_task(Task(biz_code="own", biz_num="1", trigger=AT_THREE))
        assert api.pause_task("paused", "recurring")
    assert {shown("UTC", code) for code in ("handler", "text", "own", "paused")} == {"02 03:00"}
    start_in(settings, SHANGHAI)
    assert {shown(SHANGHAI, code) for code in ("handler", "text", "own", "paused")} == {"02 03:00"}
    assert TaskRow.objects.get(biz_code="paused").status == TaskStatus.PAUSED
    start_in(settings, "UTC")
    assert {shown("UTC", code) for code in ("handler", "text", "own", "paused")} == {"02 03:00"}


def test_what_does_not_depend_on_the_zone(settings: Any) -> None:
    handler = handler_of(lambda task: None, "moved", trigger=AT_THREE)
    handler_of(lambda task: None, "zone", trigger=Cron("0 3 * * *", tz="UTC"))
    handler_of(lambda task: None, "hourly", trigger=Cron("0 * * * *"))
    handler_of(lambda task: None, "interval", trigger=Interval(hours=5))
    start_in(settings, "UTC")
    with frozen_at(NOON):
        handler.reschedule("recurring", NOON + 90 * MINUTE)
        add_task(Task(biz_code="moved", biz_num="1", when=NOON + 15 * HOUR))  # 03:00, and no trigger
    before = set(TaskRow.objects.values_list("biz_code", "when", "claim_at", "version"))
    start_in(settings, SHANGHAI)
    assert set(TaskRow.objects.values_list("biz_code", "when", "claim_at", "version")) == before


def test_a_retry_and_a_deferred_schedule_are_left_alone(settings: Any) -> None:
    def fail(task: Any) -> None:
        raise ValueError

    handler_of(fail, "failing", trigger=AT_THREE, max_attempts=2, backoff=lambda self, attempt: HOUR)
    start_in(settings, "UTC")
    with frozen_at(NOON + 15 * HOUR):
        drain()
    before = TaskRow.objects.values("when", "claim_at", "version", "attempts").get()
    assert before["attempts"] == 1
    start_in(settings, SHANGHAI, NOON + 15 * HOUR + MINUTE)
    assert TaskRow.objects.values("when", "claim_at", "version", "attempts").get() == before


def test_rows_of_a_database_without_a_record_are_left_alone(settings: Any) -> None:
    handler_of(lambda task: None, "own")
    with frozen_at(NOON):
        add_task(Task(biz_code="own", biz_num="1", trigger=AT_THREE))
    start_in(settings, SHANGHAI)
    assert shown("UTC", "own") == "02 03:00"
    assert Overview.objects.get(name=zones.NAME).data == {"zone": SHANGHAI}


def test_codes_of_another_project_are_left_alone(settings: Any) -> None:
    handler_of(lambda task: None, "theirs", trigger=AT_THREE)
    start_in(settings, "UTC")
    registry.clear()
    handler_of(lambda task: None, "ours", trigger=AT_THREE)
    start_in(settings, SHANGHAI)
    assert (shown("UTC", "theirs"), shown(SHANGHAI, "ours")) == ("02 03:00", "02 03:00")


def test_a_time_that_has_passed_in_the_new_zone_is_not_left_out(settings: Any) -> None:
    """At 20:00 in UTC it is 04:00 of the next day in Shanghai: of that day, 03:00 has not been run."""
    seen: list[datetime] = []
    handler_of(lambda task: seen.append(task.when), "daily", trigger=AT_THREE)
    start_in(settings, "UTC")
    start_in(settings, SHANGHAI, NOON + 8 * HOUR)
    with frozen_at(NOON + 8 * HOUR):
        drain()
    assert seen == [NOON + 7 * HOUR]
    assert shown(SHANGHAI, "daily") == "03 03:00"


def test_a_day_does_not_come_twice(settings: Any) -> None:
    """At 20:00 in UTC the run for 03:00 of the next day in Shanghai is over: it does not come again at 03:00 in UTC."""
    handler_of(lambda task: None, "daily", trigger=AT_THREE)
    start_in(settings, SHANGHAI)
    with frozen_at(NOON + 8 * HOUR):
        drain()
    start_in(settings, "UTC", NOON + 8 * HOUR)
    assert shown("UTC", "daily") == "03 03:00"


def test_executors_of_both_settings_side_by_side(settings: Any) -> None:
    """One with the old setting ends a run after the new one has started: the next confirmation mends its time."""
    handler_of(lambda task: None, "daily", trigger=AT_THREE)
    old = start_in(settings, "UTC")
    new = start_in(settings, SHANGHAI)
    TaskRow.objects.update(when=NOON + 15 * HOUR, claim_at=NOON + 15 * HOUR)  # as the old one writes it
    settings.TIME_ZONE = "UTC"
    with frozen_at(NOON + MINUTE):
        old.confirm()
    assert shown("UTC", "daily") == "02 03:00"
    settings.TIME_ZONE = SHANGHAI
    with frozen_at(NOON + MINUTE):
        new.confirm()
    assert shown(SHANGHAI, "daily") == "02 03:00"


def test_ten_minutes_later_nothing_is_looked_for_any_more(settings: Any) -> None:
    handler_of(lambda task: None, "daily", trigger=AT_THREE)
    start_in(settings, "UTC")
    new = start_in(settings, SHANGHAI)
    TaskRow.objects.update(when=NOON + 15 * HOUR, claim_at=NOON + 15 * HOUR)
    with frozen_at(NOON + 11 * MINUTE):
        new.confirm()
    assert shown("UTC", "daily") == "02 03:00"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("trigger", "before", "when", "expected"),
    [
        ("Cron('0 3 1 * *')", "UTC", "2026-07-01T03:00", "2026-06-30T19:00"),
        ("Cron('30 * * * *')", "UTC", "2026-06-01T13:30", "2026-06-01T13:30"),
        ("Cron('0 * * * *')", "Asia/Kolkata", "2026-06-01T12:30", "2026-06-01T13:00"),
        ("Cron('0 3,11 * * *')", "UTC", "2026-06-02T03:00", "2026-06-02T03:00"),
        ("Cron('0 3 * * *', end='2026-06-01T10:00+00:00')", "UTC", "2026-06-02T03:00", "2026-06-02T03:00"),
        ("Cron('0 3 * * *', start='2026-06-01T20:00+00:00')", "UTC", "2026-06-02T03:00", "2026-06-02T19:00"),
        ("Once('2026-06-02T03:00+00:00')", "UTC", "2026-06-02T03:00", "2026-06-02T03:00"),
    ],
)
def test_its_time_in_shanghai(settings: Any, trigger: str, before: str, when: str, expected: str) -> None:
    settings.TIME_ZONE = SHANGHAI
    assert rezoned(parse(trigger), moment(when), before, NOON) == moment(expected)
