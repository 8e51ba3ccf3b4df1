"""Triggers at the ends of the calendar have times in the range of moments that tasks may have, and no error."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.store.schedules.recurrence import jittered
from django_delayed_tasks.triggers import Cron, Interval, Once, Trigger, next_run, parse, parse_stored
from django_delayed_tasks.triggers.values import FIRST, LAST

DAY = timedelta(days=1)
EAST, WEST = timezone(timedelta(hours=14)), timezone(-timedelta(hours=12))
BEYOND = [
    datetime.min.replace(tzinfo=EAST), datetime.min.replace(tzinfo=WEST), FIRST - timedelta.resolution,
    LAST + timedelta.resolution, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), datetime.max.replace(tzinfo=WEST),
    datetime.max.replace(tzinfo=EAST),
]  # fmt: skip
TRIGGERS: list[Trigger] = [
    Cron("0 3 * * *", tz="Asia/Shanghai"), Cron("30 * * * *", tz="America/New_York"), Cron("*/7 * * * * *"),
    Cron("0 0 29 2 *", tz="Pacific/Kiritimati"), Interval(days=36_600), Interval(seconds=1, start=FIRST), Once(LAST),
]  # fmt: skip


@pytest.mark.parametrize("moment", BEYOND, ids=str)
def test_a_moment_out_of_range_is_refused(moment: datetime) -> None:
    for make in (Once, lambda moment: Interval(days=1, start=moment), lambda moment: Cron("@daily", end=moment)):
        with pytest.raises(InvalidTrigger, match="from 1000-01-02 to 9999-12-30 in UTC"):
            make(moment)
    with pytest.raises(InvalidTrigger, match="from 1000-01-02 to 9999-12-30 in UTC"):
        parse(f"Once('{moment.isoformat()}')")


@pytest.mark.parametrize("trigger", TRIGGERS, ids=str)
def test_any_moment_may_be_asked_about(trigger: Trigger) -> None:
    for moment in (*BEYOND, FIRST, LAST, LAST - DAY):
        times = trigger.preview(3, moment)
        assert all(FIRST <= time <= LAST for time in times)
        assert times == sorted(set(times))
        latest = trigger.latest_in(LAST - DAY, moment)
        assert latest is None or LAST - DAY < latest <= LAST
    assert trigger.next_after(LAST) is None


def test_the_first_moment_may_be_a_time() -> None:
    assert Interval(days=1, start=FIRST).preview(1, datetime.min.replace(tzinfo=EAST)) == [FIRST]


def test_jitter_does_not_lead_out_of_range() -> None:
    trigger = Once(LAST, jitter=timedelta(days=36_600))
    assert LAST - DAY <= jittered(trigger, LAST - DAY) <= LAST
    assert jittered(trigger, LAST) == LAST


def test_the_last_run_has_no_next() -> None:
    assert next_run(Interval(days=36_600), LAST - DAY, LAST - DAY, LAST - DAY) is None
    assert next_run(Cron("@yearly"), datetime(9999, 1, 1, tzinfo=UTC), LAST - DAY, LAST - DAY) is None


def test_a_row_of_an_earlier_release_still_recurs() -> None:
    end = "9999-12-31T23:59:59+00:00"
    assert parse_stored(f"Cron('0 3 * * *', end='{end}')") == Cron("0 3 * * *", end=LAST)
    assert parse_stored(f"Once('{end}')") == Once(LAST)
    assert parse_stored("Interval(days=1, start='1000-01-01T00:00:00+00:00')") == Interval(days=1, start=FIRST)
