"""Days on which clocks change: a time that does not exist, and one that comes twice."""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any
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
    """Return when it fires from midnight to midnight, by the clocks there."""
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
@pytest.mark.parametrize("expression", ["0 * * * *", "45 */1 * * *", "30 15 * * * *"])
def test_every_hour_is_every_hour_of_real_time(zone: str, day: str, expression: str) -> None:
    """Where clocks change by half an hour, the wall clock shows that minute half an hour sooner or later."""
    times = around(zone, day, expression)
    change = [timedelta(hours=hours) for hours in (1, 0.5, 1.5)]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert set(pauses) <= (set(change) if zone == "Australia/Lord_Howe" else {timedelta(hours=1)})
    assert sum(pause != timedelta(hours=1) for pause in pauses) <= 1


NIGHTS = [
    ("Europe/Berlin", "2026-03-29", "00:00+01:00 01:00+01:00 03:00+02:00 04:00+02:00"),
    ("Europe/Berlin", "2026-10-25", "00:00+02:00 01:00+02:00 02:00+02:00 02:00+01:00 03:00+01:00"),
    ("America/New_York", "2026-03-08", "00:00-05:00 01:00-05:00 03:00-04:00 04:00-04:00"),
    ("America/New_York", "2026-11-01", "00:00-04:00 01:00-04:00 01:00-05:00 02:00-05:00 03:00-05:00"),
    ("Australia/Lord_Howe", "2026-10-04", "00:00+10:30 01:00+10:30 03:00+11:00 04:00+11:00"),
    ("Asia/Shanghai", "2026-03-29", "00:00+08:00 01:00+08:00 02:00+08:00 03:00+08:00 04:00+08:00"),
]


@pytest.mark.parametrize(("zone", "day", "fires"), NIGHTS)
def test_a_fixed_minute_of_every_hour_comes_in_the_hour_that_comes_twice_too(zone: str, day: str, fires: str) -> None:
    shown = fires.split()
    assert on_that_day(zone, day, "0 * * * *")[: len(shown)] == shown


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize("expression", ["30 2 * * *", "*/30 * * * *", "0 0-3 * * *", "15 1 * * *", "45 1,2 * * *"])
def test_backwards_finds_what_forwards_finds(zone: str, day: str, expression: str) -> None:
    trigger = Cron(expression, tz=zone)
    times = around(zone, day, expression)
    for earlier, later in pairwise(times):
        assert trigger.latest_in(times[0] - timedelta(1), later) == later
        assert trigger.latest_in(times[0] - timedelta(1), later - timedelta(seconds=1)) == earlier


FIXED = ["30 2 * * *", "0 0-3 * * *", "15 1 * * *", "45 1,2 * * *", "*/20 30 2 * * *", "0,30 15,45 1-3 * * *"]


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize("expression", [*FIXED, "*/30 * * * *", "0 * * * *"])
def test_from_any_moment_the_next_and_the_latest_are_those_of_the_row(zone: str, day: str, expression: str) -> None:
    """This is so even within the hour that comes a second time."""
    trigger = Cron(expression, tz=zone)
    times = around(zone, day, expression)
    assert times == sorted(set(times))
    begin = times[0].replace(minute=7, second=13)
    for moment in (begin + timedelta(minutes=10 * number, microseconds=number % 2) for number in range(6 * 72)):
        if not times[0] <= moment < times[-1]:
            continue
        place = bisect_right(times, moment)
        assert trigger.next_after(moment) == times[place], moment
        assert trigger.latest_in(times[0] - timedelta(1), moment) == times[place - 1], moment


SIX = [
    ("Europe/Berlin", "2026-03-29", "0 30 2 * * *", ["03:00+02:00"]),
    ("Europe/Berlin", "2026-10-25", "0 30 2 * * *", ["02:30+02:00"]),
    ("Europe/Berlin", "2026-10-25", "*/30 30 2 * * *", ["02:30+02:00"] * 2),
    ("Europe/Berlin", "2026-03-29", "*/30 30 2 * * *", ["03:00+02:00"]),
]


@pytest.mark.parametrize(("zone", "day", "expression", "fires"), SIX)
def test_seconds_change_nothing(zone: str, day: str, expression: str, fires: list[str]) -> None:
    assert on_that_day(zone, day, expression) == fires


def test_a_whole_day_that_does_not_exist() -> None:
    """Samoa went from one side of the date line to the other."""
    begin = datetime(2011, 12, 29, tzinfo=ZoneInfo("Pacific/Apia"))
    times = [time.astimezone(begin.tzinfo) for time in Cron("0 12 * * *", tz="Pacific/Apia").preview(3, begin)]
    assert [f"{time:%m-%d %H:%M}" for time in times] == ["12-29 12:00", "12-31 00:00", "12-31 12:00"]


def test_an_interval_does_not_look_at_clocks() -> None:
    begin = datetime(2026, 10, 24, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    [day_later] = Interval(days=1).preview(1, begin)
    assert f"{day_later.astimezone(begin.tzinfo):%H:%M}" == "11:00"


# zone, the day of the change there, which is by another amount than an hour, at another time, or not to the minute
ODD = [
    ("Australia/Lord_Howe", "2026-04-05"), ("Australia/Lord_Howe", "2026-10-04"), ("Antarctica/Troll", "2026-03-29"),
    ("Antarctica/Troll", "2026-10-25"), ("Pacific/Apia", "2011-12-30"), ("America/Caracas", "2007-12-09"),
    ("Asia/Pyongyang", "2015-08-15"), ("Asia/Pyongyang", "2018-05-04"), ("Pacific/Kwajalein", "1993-08-21"),
    ("America/St_Johns", "2010-11-07"), ("Africa/Casablanca", "2026-02-15"), ("Africa/Monrovia", "1972-01-07"),
    ("Asia/Singapore", "1982-01-01"), ("Europe/Amsterdam", "1937-07-01"),
]  # fmt: skip


@cache
def clocks(zone: str, day: str) -> tuple[datetime, list[tuple[datetime, datetime]]]:
    """Return a moment before that day, and each later one at which clocks there begin a minute, with what they show."""
    begin = datetime.fromisoformat(f"{day}T12:00Z") - timedelta(hours=36, seconds=1)
    step = 2 if zone in ("Africa/Monrovia", "Europe/Amsterdam") else 60  # their offsets were not of whole minutes
    moments = (begin + timedelta(seconds=number) for number in range(1, 72 * 3600, step))
    shown = [(moment, moment.astimezone(ZoneInfo(zone))) for moment in moments]
    return begin, [(at, wall) for at, wall in shown if not wall.second]


@pytest.mark.parametrize(("zone", "day"), ODD)
@pytest.mark.parametrize(
    ("expression", "minutes", "hours"),
    [("*/15 * * * *", {0, 15, 30, 45}, set(range(24))), ("30 * * * *", {30}, set(range(24))),
     ("0 */2 * * *", {0}, set(range(0, 24, 2))), ("*/20 0-3 * * *", {0, 20, 40}, {0, 1, 2, 3})],
)  # fmt: skip
def test_with_a_star_it_fires_whenever_clocks_show_that_time(
    zone: str, day: str, expression: str, minutes: set[int], hours: set[int]
) -> None:
    begin, shown = clocks(zone, day)
    expected = [at for at, wall in shown if wall.minute in minutes and wall.hour in hours]
    trigger = Cron(expression, tz=zone)
    assert trigger.preview(len(expected), begin) == expected
    backwards, before = [], expected[-1]
    while found := trigger.latest_in(begin, before):
        backwards.append(found)
        before = found - timedelta(microseconds=1)
    assert backwards[::-1] == expected


@pytest.mark.parametrize("trigger", [Interval(minutes=10), Cron("*/10 * * * *", tz="Europe/Berlin")])
def test_moments_in_the_zone_whose_clocks_are_set_back(trigger: Any) -> None:
    """By the clock on the wall, the second 02:10 is before the first 02:30."""
    zone = ZoneInfo("Europe/Berlin")
    after, until = datetime(2026, 10, 25, 2, 30, tzinfo=zone), datetime(2026, 10, 25, 2, 10, fold=1, tzinfo=zone)
    assert trigger.latest_in(after, until) == datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    assert trigger.latest_in(until, after) is None
    assert trigger.next_after(until) == datetime(2026, 10, 25, 1, 20, tzinfo=UTC)
