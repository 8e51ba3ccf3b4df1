"""Which entries of Celery's beat have a recurrence here; the command is tried with the real package elsewhere."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from django_delayed_tasks import Cron, Interval, clock
from django_delayed_tasks.importers.beat import Entry, expression_of, of_row, recurrence_of, routed
from django_delayed_tasks.importers.moving import NotMoved

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@dataclass
class schedule:  # noqa: N801 (named as Celery's)
    run_every: timedelta = HOUR


@dataclass
class crontab:  # noqa: N801 (named as Celery's)
    minute: set[int] = field(default_factory=lambda: {0})
    hour: set[int] = field(default_factory=lambda: {3})
    day_of_month: set[int] = field(default_factory=lambda: set(range(1, 32)))
    month_of_year: set[int] = field(default_factory=lambda: set(range(1, 13)))
    day_of_week: set[int] = field(default_factory=lambda: set(range(7)))
    tz: str = "UTC"
    nowfun: Any = None
    _orig_minute: str = "0"
    _orig_hour: str = "3"


def hourly(**fields: Any) -> Entry:
    """An entry that is due every hour."""
    return Entry("tests.function_tasks.functions.add_up", [], {}, **{"schedule": schedule(), **fields})


def at_night(**fields: Any) -> Entry:
    """An entry that is due each night."""
    return hourly(schedule=crontab(), **fields)


def now() -> datetime:
    return clock.host_now().replace(microsecond=0)


def test_an_interval_is_counted_from_the_last_run() -> None:
    last, end = now() - HOUR / 2, now() + 2 * HOUR
    assert recurrence_of(hourly(last_run_at=last, expires=end)) == (Interval(hours=1, end=end), last + HOUR)


@pytest.mark.parametrize("make", [hourly, at_night])
def test_an_entry_that_begins_later_has_its_first_time_then(make: Any) -> None:
    """So it is with beat, also with a crontab: an entry that has a start and never ran is due when it starts."""
    start = datetime(2126, 3, 4, tzinfo=UTC)
    assert recurrence_of(make(start_time=start, last_run_at=now())).first == start


@pytest.mark.parametrize("make", [hourly, at_night])
def test_what_was_missed_since_the_last_run_is_due_at_once(make: Any) -> None:
    before = clock.host_now()
    first = recurrence_of(make(last_run_at=now() - 2 * DAY, has_run=True)).first
    assert first is not None
    assert before <= first <= clock.host_now()


def test_a_crontab_that_missed_nothing_waits_for_its_next_time() -> None:
    last = Cron("0 3 * * *", tz="UTC").latest_in(now() - 2 * DAY, now())
    assert last is not None
    assert recurrence_of(at_night(last_run_at=last, has_run=True)) == (Cron("0 3 * * *", tz="UTC"), None)
    assert recurrence_of(at_night()).first is None


def test_what_is_beyond_beats_deadline_is_not_due() -> None:
    entry = at_night(last_run_at=now() - 2 * DAY, has_run=True, deadline=timedelta(microseconds=1))
    assert recurrence_of(entry).first is None


@pytest.mark.parametrize(("last", "ends"), [(-9 * HOUR, -8 * HOUR), (-HOUR / 2, HOUR / 4), (None, -HOUR)])
def test_an_interval_without_another_time_is_left_out(last: timedelta | None, ends: timedelta) -> None:
    """A repeated import would otherwise add its task once more, each time."""
    entry = hourly(last_run_at=last and now() + last, expires=now() + ends)
    with pytest.raises(NotMoved, match=f"does not run after .*{entry.expires:%H:%M}"):
        recurrence_of(entry)


def test_a_crontab_that_has_expired_is_left_out_by_a_dry_run_too() -> None:
    entry = at_night(expires=now() - HOUR)
    with pytest.raises(NotMoved, match=f"does not run after .*{entry.expires:%H:%M}"):
        recurrence_of(entry)


def test_a_crontab_with_a_clock_of_its_own_is_left_out() -> None:
    with pytest.raises(NotMoved, match="nowfun"):
        recurrence_of(hourly(schedule=crontab(nowfun=now)))


@pytest.mark.parametrize(("seconds", "grace"), [(120, 120), (0, None), (None, None)])
def test_how_late_a_message_may_be_is_the_grace(seconds: int | None, grace: int | None) -> None:
    assert recurrence_of(at_night(expire_seconds=seconds)).trigger.grace == grace


class MapRoute:  # named as Celery's
    """The router of a mapping."""

    def __init__(self, routes: dict[str, dict[str, Any]]) -> None:
        self._routes = routes

    def __call__(self, name: str) -> dict[str, Any] | None:
        return dict(self._routes[name]) if name in self._routes else None


def test_the_queue_is_that_of_the_first_route() -> None:
    task = hourly().task
    none, first, second = MapRoute({}), MapRoute({task: {"queue": "mail", "priority": 3}}), MapRoute({task: {}})
    entry = routed(hourly, [none, first, second])
    assert (entry.queue, entry.lost) == ("mail", ("priority",))
    assert routed(hourly, []).queue is None
    assert routed(lambda: hourly(queue="own"), [first]).queue == "own"


def test_a_router_that_is_not_followed_is_named() -> None:
    def by_size(*args: Any, **kwargs: Any) -> str:
        raise AssertionError("it is not called")

    entry = routed(hourly, [by_size, MapRoute({hourly().task: {"queue": "mail"}})])
    assert entry.queue is None
    assert len(entry.lost) == 1
    assert entry.lost[0].startswith("the queue that the router test_a_router_that_is_not_followed_is_named.")


def test_a_schedule_of_another_class_is_left_out() -> None:
    with pytest.raises(NotMoved, match="its schedule is a SimpleNamespace"):
        recurrence_of(hourly(schedule=SimpleNamespace()))


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ("it is disabled", {"enabled": False}),
        ("it runs only once: enqueue it with run_after", {"one_off": True}),
        ("it runs only once: enqueue it with run_after", {"clocked": object()}),
        ("it follows the sun: let the function enqueue itself", {"solar": object()}),
    ],
)
def test_a_row_that_is_left_out(said: str, fields: dict[str, Any]) -> None:
    row = {"enabled": True, "one_off": False, "clocked": None, "solar": None} | fields
    with pytest.raises(NotMoved, match=said):
        of_row(SimpleNamespace(**row))


WORKDAYS, MONDAY = {1, 2, 3, 4, 5}, {1}


@pytest.mark.parametrize(
    ("fields", "expression"),
    [
        ({"day_of_week": {6, 0}}, "0 3 * * 0,6"),
        ({"day_of_week": WORKDAYS}, "0 3 * * 1-5"),
        ({"hour": {22, 23, 0, 1}, "_orig_hour": "22-1"}, "0 0-1,22-23 * * *"),
        ({"month_of_year": {11, 12, 1, 2}}, "0 3 * 1-2,11-12 *"),
        ({"minute": set(range(0, 60, 15)), "_orig_minute": "*/15"}, "*/15 3 * * *"),
        ({"minute": set(range(0, 60, 30)), "_orig_minute": "0,30"}, "0,30 3 * * *"),
        ({"minute": set(range(60)), "hour": set(range(24))}, "* * * * *"),
        ({"day_of_month": {1, 15}}, "0 3 1,15 * *"),
        ({"day_of_month": set(range(1, 32, 2)), "day_of_week": MONDAY}, "0 3 */2 * 1"),
        ({"day_of_month": {13}, "day_of_week": {0, 2, 4, 6}}, "0 3 13 * */2"),
        ({"day_of_month": set(range(8, 15)), "day_of_week": MONDAY}, "0 3 * * 1#2"),
        ({"day_of_month": {*range(1, 8), 29, 30, 31}, "day_of_week": {1, 5}}, "0 3 * * 1#1,1#5,5#1,5#5"),
    ],
)
def test_the_expression_of_a_crontab(fields: dict[str, Any], expression: str) -> None:
    assert expression_of(crontab(**fields)) == expression


@pytest.mark.parametrize("days", [{13}, {1, 2, 3, 4, 5, 6}, set(range(1, 9))])
def test_days_that_cron_has_no_words_for_are_left_out(days: set[int]) -> None:
    with pytest.raises(NotMoved, match="Write one of the two, and let the function return on other days"):
        expression_of(crontab(day_of_month=days, day_of_week={5}))
