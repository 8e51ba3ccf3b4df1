"""The times of each trigger, and what holds for all triggers."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings

from django_delayed_tasks.triggers import Cron, Interval, Once, Trigger, parse
from tests.triggers.strategies import MOMENTS, TRIGGERS

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def hours(trigger: Trigger, n: int, after: datetime = NOON) -> list[float]:
    """Return its next times as hours after noon."""
    return [(time - NOON) / HOUR for time in trigger.preview(n, after)]


def test_interval_counts_from_where_it_is_asked() -> None:
    assert hours(Interval(hours=1, minutes=30), 3) == [1.5, 3, 4.5]


def test_interval_with_start_is_a_grid() -> None:
    trigger = Interval(hours=2, start=NOON - timedelta(days=400))
    assert hours(trigger, 2, NOON + HOUR) == [2, 4]


def test_interval_begins_with_its_start() -> None:
    assert hours(Interval(hours=2, start=NOON + 5 * HOUR), 2) == [5, 7]


def test_end_is_the_last_time() -> None:
    assert hours(Interval(hours=1, end=NOON + 2 * HOUR), 9) == [1, 2]
    assert hours(Cron("0 * * * *", tz="UTC", end=NOON + 2 * HOUR), 9) == [1, 2]


def test_cron_start_is_a_time_if_it_matches() -> None:
    assert hours(Cron("0 * * * *", tz="UTC", start=NOON + 3 * HOUR), 2) == [3, 4]


def test_cron_with_seconds() -> None:
    assert Cron("*/20 * * * * *", tz="UTC").preview(2, NOON) == [
        NOON + timedelta(seconds=20),
        NOON + timedelta(seconds=40),
    ]


@pytest.mark.parametrize(
    ("expression", "first"),
    [
        ("0 0 L * *", "2026-06-30"), ("0 0 LW * *", "2026-06-30"), ("0 0 * * 5L", "2026-06-26"),
        ("0 0 * * 1#2", "2026-06-08"), ("0 0 * JAN MON", "2027-01-04"), ("0 0 29 2 *", "2028-02-29"),
    ],
)  # fmt: skip
def test_cron_extensions(expression: str, first: str) -> None:
    assert Cron(expression, tz="UTC").preview(1, NOON)[0].date().isoformat() == first


@pytest.mark.parametrize(
    ("nickname", "times"),
    [
        ("@hourly", ["2026-06-01T13:00", "2026-06-01T14:00"]), ("@daily", ["2026-06-02T00:00", "2026-06-03T00:00"]),
        ("@midnight", ["2026-06-02T00:00", "2026-06-03T00:00"]), ("@weekly", ["2026-06-07T00:00", "2026-06-14T00:00"]),
        ("@monthly", ["2026-07-01T00:00", "2026-08-01T00:00"]), ("@yearly", ["2027-01-01T00:00", "2028-01-01T00:00"]),
        ("@annually", ["2027-01-01T00:00", "2028-01-01T00:00"]),
    ],
)  # fmt: skip
def test_cron_nicknames(nickname: str, times: list[str]) -> None:
    trigger = Cron(nickname, tz="UTC")
    assert [time.isoformat()[:16] for time in trigger.preview(2, NOON)] == times
    assert parse(f"Cron('{nickname}', tz='UTC')") == trigger


def test_weeks_are_seven_days_each() -> None:
    assert hours(Interval(weeks=1), 2) == [168, 336]
    assert parse("Interval(weeks=1)") == Interval(days=7)


def test_cron_is_in_the_projects_zone_unless_it_says_otherwise(settings: object) -> None:
    assert hours(Cron("0 15 * * *"), 1) == [1]  # TIME_ZONE = "Europe/Berlin" is two hours ahead of UTC in June
    assert hours(Cron("0 15 * * *", tz="Asia/Shanghai"), 1) == [19]


def test_once_comes_once() -> None:
    assert hours(Once(NOON + HOUR), 5) == [1]
    assert Once(NOON).preview(5, NOON) == []


def test_iterating_begins_now() -> None:
    assert next(iter(Interval(hours=1))) > datetime.now(UTC) + timedelta(minutes=59)


def test_times_are_in_utc() -> None:
    assert Cron("0 0 * * *", tz="Asia/Shanghai").preview(1, NOON)[0].tzinfo is UTC


@pytest.mark.parametrize("trigger", [Cron("* * * * *", tz="UTC"), Interval(days=36525)])
def test_the_end_of_all_calendars_is_the_end(trigger: Trigger) -> None:
    last = datetime.max.replace(tzinfo=UTC)
    assert trigger.next_after(last) is None


class TestAlways:
    """What holds for every trigger."""

    @settings(derandomize=True, database=None, deadline=None, max_examples=150)
    @given(trigger=TRIGGERS, moment=MOMENTS)
    def test_times_ascend_and_are_later(self, trigger: Trigger, moment: datetime) -> None:
        times = trigger.preview(5, moment)
        assert [moment, *times] == sorted({moment, *times})
        assert all(trigger.start is None or time >= trigger.start for time in times)

    @settings(derandomize=True, database=None, deadline=None, max_examples=150)
    @given(trigger=TRIGGERS, moment=MOMENTS)
    def test_latest_is_the_last_of_the_next(self, trigger: Trigger, moment: datetime) -> None:
        times = trigger.preview(4, moment)
        for number, time in enumerate(times):
            assert trigger.latest_in(moment, time) == time
            assert trigger.latest_in(moment, time - timedelta(microseconds=1)) == (
                times[number - 1] if number else None
            )

    @settings(derandomize=True, database=None, deadline=None, max_examples=150)
    @given(trigger=TRIGGERS)
    def test_the_text_makes_the_same_trigger(self, trigger: Trigger) -> None:
        assert parse(str(trigger)) == trigger
        assert str(parse(str(trigger))) == str(trigger)
        assert trigger.description
