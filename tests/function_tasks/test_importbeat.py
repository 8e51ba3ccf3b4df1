"""Which entries of django-celery-beat have a recurrence here; the command is tried with the real package elsewhere."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from django_delayed_tasks import Interval, clock
from django_delayed_tasks.management.commands.importbeat import NotCopied, recurrence_of

HOUR = timedelta(hours=1)


def hourly(**fields: Any) -> SimpleNamespace:
    """An entry that is due every hour."""
    unset: dict[str, Any] = {
        "task": "tests.function_tasks.functions.add_up", "enabled": True, "one_off": False, "crontab": None,
        "interval": SimpleNamespace(every=1, period="hours"), "last_run_at": None, "start_time": None,
        "expires": None, "expire_seconds": None,
    }  # fmt: skip
    return SimpleNamespace(**unset | fields)


def now() -> datetime:
    return clock.host_now().replace(microsecond=0)


def test_an_interval_is_counted_from_the_last_run() -> None:
    last, end = now() - HOUR / 2, now() + 2 * HOUR
    assert recurrence_of(hourly(last_run_at=last, expires=end)) == (Interval(hours=1, end=end), last + HOUR)


def test_an_entry_that_begins_later_has_its_first_time_then() -> None:
    start = datetime(2126, 3, 4, tzinfo=UTC)
    assert recurrence_of(hourly(start_time=start)) == (Interval(hours=1), start)


@pytest.mark.parametrize(("last", "ends"), [(-9 * HOUR, -8 * HOUR), (-HOUR / 2, HOUR / 4), (None, -HOUR)])
def test_an_interval_without_another_time_is_left_out(last: timedelta | None, ends: timedelta) -> None:
    """A repeated import would otherwise add its task once more, each time."""
    entry = hourly(last_run_at=last and now() + last, expires=now() + ends)
    with pytest.raises(NotCopied, match=f"does not run after .*{entry.expires:%H:%M}"):
        recurrence_of(entry)


def at_night(**fields: Any) -> SimpleNamespace:
    """An entry that is due each night."""
    daily = {"minute": "0", "hour": "3", "day_of_month": "*", "month_of_year": "*", "day_of_week": "*"}
    return hourly(interval=None, crontab=SimpleNamespace(**daily, timezone="UTC"), **fields)


def test_a_crontab_that_has_expired_is_left_out_by_a_dry_run_too() -> None:
    entry = at_night(expires=now() - HOUR)
    with pytest.raises(NotCopied, match=f"does not run after .*{entry.expires:%H:%M}"):
        recurrence_of(entry)


def test_a_disabled_entry_is_left_out() -> None:
    with pytest.raises(NotCopied, match="it is disabled"):
        recurrence_of(at_night(enabled=False))
