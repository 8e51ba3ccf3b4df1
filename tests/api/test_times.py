"""Moments: exact to the microsecond, whatever the zones of server, process and caller."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone as django_timezone

from django_delayed_tasks import api, clock
from django_delayed_tasks.models import Task
from tests.store import verbs
from tests.store.verbs import CODE, HOUR, NOW

pytestmark = pytest.mark.per_database

BERLIN, KATHMANDU = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kathmandu")

MOMENTS = [
    datetime(2031, 5, 17, 9, 30, 0, 1, tzinfo=UTC),
    datetime(2031, 5, 17, 9, 30, 0, 999_999, tzinfo=UTC),
    datetime(2031, 5, 17, 9, 30, tzinfo=KATHMANDU),
    datetime(2031, 5, 17, 9, 30, 59, 123_456, tzinfo=timezone(timedelta(hours=-11, minutes=-59))),
    datetime(2030, 10, 27, 2, 30, tzinfo=BERLIN, fold=0),  # the hour that comes twice
    datetime(2030, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
    datetime(2030, 3, 31, 2, 30, tzinfo=BERLIN),  # the hour that does not come
    datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC),  # beyond MySQL's TIMESTAMP
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1000, 1, 2, tzinfo=UTC),
    datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC),
]


@pytest.mark.parametrize("when", MOMENTS, ids=str)
def test_when_comes_back_exactly(db: None, frozen: None, when: datetime) -> None:
    verbs.add("one", when)
    api.add_tasks([verbs.task("many", when)])
    verbs.add("moved")
    api.reschedule_task(CODE, "moved", when)
    expected = (when.astimezone(UTC), max(when.astimezone(UTC), NOW))
    assert {(row.when, row.claim_at) for row in map(verbs.present, ("one", "many", "moved"))} == {expected}
    assert {task.when for task in api.get_tasks_by_code(CODE, when=when)} == {when.astimezone(UTC)}


def test_moments_of_one_batch_come_back_exactly(db: None, frozen: None) -> None:
    """What differs within a batch is sent in another form than what is the same in all of it."""
    api.add_tasks([verbs.task(str(number), when) for number, when in enumerate(MOMENTS)])
    found = {int(row.biz_num): row.when for row in Task.objects.all()}
    assert found == {number: when.astimezone(UTC) for number, when in enumerate(MOMENTS)}


@pytest.mark.parametrize("when", MOMENTS, ids=str)
def test_when_comes_back_from_a_run(db: None, frozen: None, when: datetime) -> None:
    """Deferred during a run, or returned by the run itself, and then seen by the next one."""
    verbs.add("deferred")
    verbs.add("again")
    again, deferred = sorted(verbs.claim(), key=str)
    verbs.add("deferred", when)
    verbs.settle(verbs.done(deferred), verbs.again(again, when))
    with clock.frozen_at(max(when, NOW)):
        assert {run.when for run in verbs.claim()} == {when.astimezone(UTC)}


def test_the_hour_that_comes_twice_is_two_hours(db: None) -> None:
    for fold in (0, 1):
        verbs.add(str(fold), datetime(2030, 10, 27, 2, 30, tzinfo=BERLIN, fold=fold))
    assert verbs.present("1").when - verbs.present("0").when == HOUR


@pytest.mark.parametrize("offset", [timedelta(days=3), timedelta(microseconds=1), -HOUR, timedelta(days=36_000)])
def test_an_offset_counts_from_now(db: None, frozen: None, offset: timedelta) -> None:
    verbs.add("one", offset)
    api.add_tasks([verbs.task("many", offset)])
    verbs.add("moved")
    api.reschedule_task(CODE, "moved", offset)
    for num in ("one", "many", "moved"):
        assert (verbs.present(num).when, verbs.present(num).claim_at) == (NOW + offset, max(NOW + offset, NOW))


def test_an_offset_over_a_change_of_clocks(db: None) -> None:
    """Three days are 72 hours."""
    with clock.frozen_at(datetime(2030, 3, 30, 12, tzinfo=BERLIN)), django_timezone.override(BERLIN):
        verbs.add(when=timedelta(days=3))
    assert verbs.present().when == datetime(2030, 4, 2, 13, tzinfo=BERLIN)


@pytest.mark.parametrize("zone", [UTC, BERLIN, KATHMANDU])
def test_now_is_now_in_every_zone(db: None, zone: ZoneInfo) -> None:
    """Neither the server's zone nor the one that Django shows times in shifts it."""
    with django_timezone.override(zone):
        verbs.add("one")
        api.add_tasks([verbs.task("many")])
        verbs.add("offset", timedelta(minutes=1))
        rows = [verbs.present(num) for num in ("one", "many", "offset")]
    now = datetime.now(UTC)
    late = [now - row.when for row in rows[:2]] + [now + timedelta(minutes=1) - rows[2].when]
    assert all(timedelta(seconds=-5) < by < timedelta(seconds=25) for by in late)
    assert all(row.claim_at - row.when < timedelta(seconds=1) for row in rows)
    assert [run.biz_num for run in verbs.claim()] == ["one", "many"]


def test_one_add_has_one_now(db: None) -> None:
    verbs.add("none")
    verbs.add("offset", HOUR)
    none, offset = verbs.present("none"), verbs.present("offset")
    assert (none.when, offset.when) == (none.claim_at, offset.claim_at)
    assert abs(none.create_time - none.when) < timedelta(seconds=1)
    assert abs(offset.create_time + HOUR - offset.when) < timedelta(seconds=1)


def test_a_frozen_clock_decides_what_is_due(db: None, frozen: None) -> None:
    verbs.add(when=HOUR)
    assert verbs.claim() == []
    with clock.frozen_at(NOW + HOUR - timedelta(microseconds=1)):
        assert verbs.claim() == []
    with clock.frozen_at((NOW + HOUR).astimezone(KATHMANDU)):
        assert len(verbs.claim()) == 1
