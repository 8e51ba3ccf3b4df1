"""Days on which clocks change: a time that does not exist, and one that comes twice."""

from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from django_delayed_tasks.triggers import Cron, Interval

# zone, midnight before the change, expression, what the wall shows
SPRING = [
    ("Europe/Berlin", "2026-03-29", "30 2 * * *", "03:00+02:00"),
    ("America/New_York", "2026-03-08", "30 2 * * *", "03:00-04:00"),
    ("Australia/Lord_Howe", "2026-10-04", "15 2 * * *", "02:30+11:00"),
    ("Asia/Shanghai", "2026-03-29", "30 2 * * *", "02:30+08:00"),
]
AUTUMN = [
    ("Europe/Berlin", "2026-10-25", "30 2 * * *", "02:30+02:00"),
    ("America/New_York", "2026-11-01", "30 1 * * *", "01:30-04:00"),
    ("Australia/Lord_Howe", "2026-04-05", "45 1 * * *", "01:45+11:00"),
    ("Asia/Shanghai", "2026-10-25", "30 2 * * *", "02:30+08:00"),
]


def on_that_day(zone: str, day: str, expression: str) -> list[str]:
    """When it fires from midnight to midnight, by the clocks there."""
    begin = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    end = (datetime.fromisoformat(day) + timedelta(days=1)).replace(tzinfo=ZoneInfo(zone))
    times = Cron(expression, tz=zone).preview(200, begin - timedelta(seconds=1))
    local = [time.astimezone(begin.tzinfo) for time in times if time < end]
    return [f"{time:%H:%M}{time.isoformat()[-6:]}" for time in local]


@pytest.mark.parametrize(("zone", "day", "expression", "fires"), SPRING)
def test_a_time_that_does_not_exist_is_the_first_that_does(zone: str, day: str, expression: str, fires: str) -> None:
    assert on_that_day(zone, day, expression) == [fires]


@pytest.mark.parametrize(("zone", "day", "expression", "fires"), AUTUMN)
def test_a_time_that_comes_twice_fires_once(zone: str, day: str, expression: str, fires: str) -> None:
    assert on_that_day(zone, day, expression) == [fires]


# Fixed hours: each once, by the clock on the wall; one that does not exist, and one that comes twice, as above.
HOURS = [
    ("Europe/Berlin", "2026-03-29", "00:00+01:00 01:00+01:00 03:00+02:00 04:00+02:00"),
    ("Europe/Berlin", "2026-10-25", "00:00+02:00 01:00+02:00 02:00+02:00 03:00+01:00 04:00+01:00"),
    ("America/New_York", "2026-03-08", "00:00-05:00 01:00-05:00 03:00-04:00 04:00-04:00"),
    ("America/New_York", "2026-11-01", "00:00-04:00 01:00-04:00 02:00-05:00 03:00-05:00 04:00-05:00"),
    ("Australia/Lord_Howe", "2026-10-04", "00:00+10:30 01:00+10:30 02:30+11:00 03:00+11:00 04:00+11:00"),
    ("Australia/Lord_Howe", "2026-04-05", "00:00+11:00 01:00+11:00 02:00+10:30 03:00+10:30 04:00+10:30"),
    ("Asia/Shanghai", "2026-03-29", "00:00+08:00 01:00+08:00 02:00+08:00 03:00+08:00 04:00+08:00"),
    ("Asia/Shanghai", "1990-04-15", "00:00+08:00 01:00+08:00 03:00+09:00 04:00+09:00"),
    ("Asia/Shanghai", "1990-09-16", "00:00+09:00 01:00+09:00 02:00+08:00 03:00+08:00 04:00+08:00"),
]


@pytest.mark.parametrize(("zone", "day", "fires"), HOURS)
def test_fixed_hours_fire_once_each(zone: str, day: str, fires: str) -> None:
    assert " ".join(on_that_day(zone, day, "0 0-4 * * *")) == fires


CHANGES = sorted({(zone, day) for zone, day, _, _ in SPRING + AUTUMN})


def around(zone: str, day: str, expression: str) -> list[datetime]:
    """Times from the day before on."""
    before = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)) - timedelta(days=1)
    return Cron(expression, tz=zone).preview(150, before)


@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_every_half_hour_is_every_half_hour_of_real_time(zone: str, day: str) -> None:
    times = around(zone, day, "*/30 * * * *")
    assert {later - earlier for earlier, later in pairwise(times)} == {timedelta(minutes=30)}


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize("expression", ["30 2 * * *", "*/30 * * * *", "0 0-3 * * *", "15 1 * * *", "45 1,2 * * *"])
def test_backwards_finds_what_forwards_finds(zone: str, day: str, expression: str) -> None:
    trigger = Cron(expression, tz=zone)
    times = around(zone, day, expression)
    for earlier, later in pairwise(times):
        assert trigger.latest_in(times[0] - timedelta(1), later) == later
        assert trigger.latest_in(times[0] - timedelta(1), later - timedelta(seconds=1)) == earlier


def test_an_interval_does_not_look_at_clocks() -> None:
    begin = datetime(2026, 10, 24, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    [day_later] = Interval(days=1).preview(1, begin)
    assert f"{day_later.astimezone(begin.tzinfo):%H:%M}" == "11:00"
