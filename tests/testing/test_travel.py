"""``travel``: one clock for the whole app, and for other libraries that move clocks."""

import sys
import time
from datetime import UTC, date, datetime, timedelta
from typing import Any

import freezegun
import pytest
import time_machine
from asgiref.sync import async_to_sync
from django.utils import timezone

from django_delayed_tasks import Task, TaskException, clock
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.testing import host_clock, run_due_tasks, run_until, travel
from tests.executor.parts import add, handler_of

NOON = datetime(2031, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
NAIVE = NOON.replace(tzinfo=None)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def all_clocks() -> set[datetime]:
    return {
        timezone.now(),
        datetime.now(UTC),
        clock.host_now(),
        clock.DatabaseClock().now(),
        datetime.fromtimestamp(time.time_ns() // 1000 / 1e6, UTC),
        read_now("default"),
    }


@pytest.mark.django_db
def test_all_clocks_show_it() -> None:
    with travel(to=NOON):
        assert all_clocks() == {NOON}
        assert date.today() == NOON.date()  # noqa: DTZ011
    assert timezone.now() < NOON
    assert read_now("default") < NOON


@pytest.mark.django_db
def test_it_stands_still_until_it_is_moved() -> None:
    with travel(to=NOON) as journey:
        journey.move(by=HOUR)
        assert all_clocks() == {journey.now} == {NOON + HOUR}
        journey.move(to=NOON + DAY)
        assert all_clocks() == {NOON + DAY}


def test_by_a_span() -> None:
    before = timezone.now()
    with travel(by=DAY):
        assert before + DAY <= timezone.now() <= before + DAY + HOUR


def test_without_a_destination_the_clock_stops() -> None:
    with travel() as journey:
        assert timezone.now() == journey.now == timezone.now()


def test_journeys_nest() -> None:
    with travel(to=NOON):
        with travel(by=HOUR):
            assert timezone.now() == NOON + HOUR
        assert timezone.now() == NOON


def test_a_function_may_be_decorated() -> None:
    @travel(to=NOON)
    def now() -> datetime:
        return timezone.now()

    assert now() == now() == NOON


def test_an_async_function_too() -> None:
    @travel(to=NOON)
    async def now() -> datetime:
        return timezone.now()

    assert (async_to_sync(now)(), async_to_sync(now)()) == (NOON, NOON)
    assert timezone.now() < NOON


def test_a_class_is_refused() -> None:
    with pytest.raises(TypeError, match="is a class"):
        travel(to=NOON)(Task)


def test_the_time_zone_of_the_process_stays() -> None:
    zone = time.tzname
    with travel(to=NOON) as journey:
        assert time.tzname == zone
        journey.move(by=HOUR)
        assert time.tzname == zone
        assert datetime.now() == datetime.fromtimestamp((NOON + HOUR).timestamp())  # noqa: DTZ005, DTZ006


def test_the_clock_returns_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), travel(to=NOON):
        raise ZeroDivisionError
    assert timezone.now() < NOON


@pytest.mark.parametrize("wrong", [{"to": NAIVE}, {"to": "noon"}, {"to": NOON, "by": HOUR}])
def test_other_destinations_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError), travel(**wrong):
        pass


@pytest.mark.django_db
def test_inside_of_time_machine() -> None:
    seen: list[datetime] = []
    handler_of(lambda task: seen.append(timezone.now()))
    with time_machine.travel(NOON, tick=False), host_clock():
        add("now")
        add("later", when=DAY)
        assert Task.objects.get(biz_num="later").when == NOON + DAY
        run_due_tasks()
        run_until(2 * DAY)
        assert timezone.now() == NOON
    assert seen == [NOON, NOON + DAY]


@pytest.mark.django_db
def test_time_machine_inside_of_it() -> None:
    seen: list[datetime] = []
    handler_of(lambda task: seen.append(timezone.now()))
    with travel(to=NOON):
        add(when=HOUR)
        with time_machine.travel(NOON + DAY, tick=False):
            run_due_tasks()
    assert seen == [NOON + DAY]


@pytest.mark.django_db
def test_inside_of_freezegun(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[datetime] = []
    handler_of(lambda task: seen.append(timezone.now()))
    with freezegun.freeze_time(NOON), host_clock():
        add("now")
        add("later", when=DAY)
        assert Task.objects.get(biz_num="later").when == NOON + DAY
        run_due_tasks()
        run_until(2 * DAY)
        assert timezone.now() == NOON
        with travel(by=HOUR) as journey:
            assert timezone.now() == NOON + HOUR
            journey.move(by=HOUR)
            assert timezone.now() == journey.now == NOON + 2 * HOUR
    assert seen == [NOON, NOON + DAY]
    assert caplog.text == ""


@pytest.mark.django_db
def test_freezegun_inside_of_it() -> None:
    seen: list[datetime] = []
    handler_of(lambda task: seen.append(timezone.now()))
    with travel(to=NOON):
        add(when=HOUR)
        with freezegun.freeze_time(NOON + DAY):
            run_due_tasks()
        assert timezone.now() == NOON
    assert seen == [NOON + DAY]


@pytest.mark.django_db
def test_time_is_only_read_from_the_host_where_it_is_moved() -> None:
    """``run_due_tasks`` alone takes the database's clock, by which ``add_task`` has scheduled."""
    handler_of(lambda task: None)
    with clock.frozen_at(NOON):
        add()
        assert len(run_due_tasks()) == 1


def test_without_time_machine_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "time_machine", None)
    with pytest.raises(TaskException, match=r"pip install 'django-delayed-tasks\[testing\]'"), travel(to=NOON):
        pass
