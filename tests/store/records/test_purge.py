"""The history is purged in the order of its primary key, each row read once."""

from collections.abc import Container
from datetime import datetime, timedelta

import pytest
from django.db import connection

from django_delayed_tasks import clock
from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.records.history import oldest
from django_delayed_tasks.store.records.purging import ALL, AllBut, PurgeResult, count_old, purge
from tests.store.meters import UNIT, reads
from tests.store.verbs import ALIAS, HOUR, NOW

KEPT = 4_000
ENOUGH = 20_000
"""Rows that PostgreSQL does not rather read in a row."""


def finished(code: str, *ago: timedelta, now: datetime = NOW) -> None:
    """Leave a run in the history for each of these ages."""
    rows = [
        TaskRun(
            task_id=1, version=1, biz_code=code, biz_num=str(number), when=now, attempt=1, outcome=RunOutcome.DONE,
            finished=now - age,
        ) for number, age in enumerate(ago)
    ]  # fmt: skip
    TaskRun.objects.bulk_create(rows, batch_size=1000)


def left() -> list[tuple[str, int]]:
    """The code and the age in hours of each run that is left."""
    rows = TaskRun.objects.order_by("biz_code", "-finished").values_list("biz_code", "finished")
    return [(code, (NOW - moment) // HOUR) for code, moment in rows]


def purged(hours: float, codes: Container[str] = ALL, after: int = 0, batch_size: int = 1000) -> PurgeResult:
    return purge(ALIAS, hours * HOUR, codes, after, batch_size)


def test_what_is_older_is_deleted(db: None, frozen: None) -> None:
    """Rows that are exactly as old remain."""
    finished("code", 3 * HOUR, 2 * HOUR, HOUR)
    assert [purged(2).deleted for _ in range(2)] == [1, 0]
    with clock.frozen_at(NOW + timedelta(microseconds=1)):
        assert [purged(2).deleted for _ in range(2)] == [1, 0]
    assert left() == [("code", 1)]


def test_other_codes_stay_and_are_passed(db: None, frozen: None) -> None:
    for code in ("weekly", "hourly", "other"):
        finished(code, 9 * HOUR, 5 * HOUR)
    first = purged(2, codes={"hourly"})
    assert (first.deleted, first.is_complete) == (2, True)
    assert first.position == TaskRun.objects.latest("id").id
    assert left() == [("other", 5), ("other", 9), ("weekly", 5), ("weekly", 9)]
    assert purged(2, codes=AllBut(frozenset({"weekly"}))).deleted == 2
    assert left() == [("weekly", 5), ("weekly", 9)]


def test_a_batch_continues_where_the_last_one_ended(db: None, frozen: None) -> None:
    finished("kept", *[9 * HOUR] * 4)
    finished("code", *[9 * HOUR] * 3)
    found, position = [], 0
    while True:
        batch = purged(1, codes={"code"}, after=position, batch_size=3)
        found.append(batch.deleted)
        position = batch.position
        if batch.is_complete:
            break
    assert found == [0, 2, 1]
    assert len(left()) == 4


def test_a_young_row_is_not_passed(db: None, frozen: None) -> None:
    """It was written before others that are older: by another clock, or by a run that took long to settle."""
    finished("code", 9 * HOUR, 0 * HOUR, 9 * HOUR)
    before, young, _ = TaskRun.objects.order_by("id").values_list("id", flat=True)
    assert purged(1) == PurgeResult(2, before, is_complete=True, young=young)
    with clock.frozen_at(NOW + 2 * HOUR):
        assert purged(1, after=before) == PurgeResult(1, young, is_complete=True)
    assert left() == []


def test_codes_are_taken_as_they_are(db: None, frozen: None) -> None:
    """Upper case, percent signs and quotes are part of the code."""
    codes = ["Code", "code", "100 %s", "it's", "支付"]
    for code in codes:
        finished(code, 2 * HOUR)
    assert purged(1, codes=AllBut(frozenset({"code"}))).deleted == 4
    assert left() == [("code", 2)]


def test_of_nothing(db: None) -> None:
    assert purged(1) == PurgeResult(0, 0, is_complete=True)


def test_what_stays_is_read_once(live_db: str) -> None:
    """4,000 old runs of a code that keeps them for longer are passed; from then on a batch reads what it deletes."""
    now = clock.host_now()
    finished("weekly", *[30 * timedelta(days=1)] * KEPT, now=now)
    finished("minutely", *[48 * HOUR] * 20, *[HOUR] * KEPT, now=now)
    position = purge(ALIAS, timedelta(days=1), {"minutely"}, batch_size=KEPT).position
    for number in range(1, 3):
        with reads() as meter:
            position = purge(ALIAS, timedelta(days=1), {"minutely"}, position, batch_size=10).position
        assert meter.total <= 100 * UNIT.get(live_db, 1)
        assert TaskRun.objects.count() == 2 * KEPT + 20 - 10 * number


DAY = timedelta(days=1)


def purge_to_the_end(batch_size: int) -> tuple[int, int]:
    """Purge what is older than an hour until no more is to be done; return the deletions, and the calls."""
    deleted = calls = position = 0
    is_complete = False
    while not is_complete:
        batch = purged(1, after=position, batch_size=batch_size)
        deleted, position, is_complete, calls = deleted + batch.deleted, batch.position, batch.is_complete, calls + 1
    return deleted, calls


def test_a_row_ahead_of_its_time_does_not_slow_the_purge(db: None, frozen: None) -> None:
    """The clock was wrong for a moment: one of the first runs ends in a month."""
    finished("code", 9 * HOUR, -30 * DAY, *[9 * HOUR] * 500, *[0 * HOUR] * 100)
    assert count_old(ALIAS, HOUR, ALL, batch_size=10) == 501
    deleted, calls = purge_to_the_end(10)
    assert deleted == 501
    assert calls <= 55
    assert len(left()) == 101


def test_many_rows_ahead_of_their_time_do_not_end_the_purge(db: None, frozen: None) -> None:
    """The clock was ahead for a while: whole portions have nothing that is old, but the rows after them are."""
    finished("code", *[-30 * DAY] * 100, *[9 * HOUR] * 300, *[-DAY] * 50, *[9 * HOUR] * 200, *[0 * HOUR] * 100)
    assert count_old(ALIAS, HOUR, ALL, batch_size=10) == 500
    assert purge_to_the_end(10)[0] == 500
    with clock.frozen_at(NOW + 31 * DAY):
        assert purge_to_the_end(10)[0] == 250
    assert left() == []


def test_young_rows_at_the_end_are_not_passed(db: None, frozen: None) -> None:
    """However many there are: they are purged in time, from where the last call stopped."""
    finished("code", *[9 * HOUR] * 10, *[0 * HOUR] * 100)
    batch = purged(1, batch_size=10)
    assert purged(1, after=batch.position, batch_size=10)[:3] == (0, batch.position, True)
    with clock.frozen_at(NOW + 2 * HOUR):
        assert purged(1, after=batch.position, batch_size=100).deleted == 100


def analyze() -> None:
    """Give the planner statistics, as time does."""
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE TABLE {TaskRun._meta.db_table}" if connection.vendor == "mysql" else "ANALYZE")


@pytest.mark.per_database
def test_a_history_that_is_all_young_is_hardly_read(live_db: str) -> None:
    """An executor looks every ten seconds, by batches of a thousand rows."""
    finished("code", *[HOUR] * ENOUGH, now=clock.host_now())
    analyze()
    with reads() as meter:
        assert purge(ALIAS, timedelta(days=1), ALL)[:3] == (0, 0, True)
    assert meter.total <= 200 * UNIT.get(live_db, 1)


@pytest.mark.per_database
def test_looking_for_old_rows_behind_young_ones_reads_few(live_db: str) -> None:
    now = clock.host_now()
    finished("code", *[HOUR] * ENOUGH, now=now)
    TaskRun.objects.filter(id=TaskRun.objects.latest("id").id).update(id=10**12)  # the ids have a gap, too
    analyze()
    with reads() as meter:
        assert purge(ALIAS, timedelta(days=1), ALL, batch_size=10)[:3] == (0, 0, True)
    assert meter.total <= 300 * UNIT.get(live_db, 1)


def test_the_oldest_run_is_not_one_that_is_ahead_of_its_time(db: None, frozen: None) -> None:
    finished("code", -30 * DAY, 9 * HOUR, 8 * HOUR)
    assert oldest(ALIAS) == NOW - 9 * HOUR
