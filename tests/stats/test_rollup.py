"""The rollup: counts that are added up by the minute, the hour and the day, and their durations."""

from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Barrier
from typing import Any

import pytest

from django_delayed_tasks import stats
from django_delayed_tasks.models import Statistic
from django_delayed_tasks.models.rollups import BOUNDS
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.stats import Durations
from django_delayed_tasks.store.records import rollup
from django_delayed_tasks.store.records.rollup import Cell, folded, merged
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, OTHER
from tests.stats.fills import cell, ended
from tests.threads import start_thread

pytestmark = pytest.mark.per_database

SECOND = timedelta(seconds=1)


@pytest.mark.django_db
def test_each_count_is_in_a_minute_an_hour_and_a_day() -> None:
    ended(3, NOW + 12 * SECOND, late=0.02, took=2)
    ended(2, NOW + 40 * SECOND, late=4, took=0.5)
    rows = Statistic.objects.order_by("grain")
    assert [(row.grain, row.start, row.runs) for row in rows] == [
        (60, NOW, 5),
        (3600, datetime(2031, 5, 17, 9, tzinfo=UTC), 5),
        (86400, datetime(2031, 5, 17, tzinfo=UTC), 5),
    ]
    assert (rows[0].late_sum, rows[0].late_max) == (8_060_000, 4_000_000)
    assert (rows[0].took_sum, rows[0].took_max) == (7_000_000, 2_000_000)
    counted: Any = rows[0]
    assert (counted.late_1, counted.late_6, counted.took_5, counted.took_4) == (3, 2, 3, 2)


@pytest.mark.django_db
def test_codes_outcomes_and_errors_are_told_apart_exactly() -> None:
    for code, outcome, error in [("a", 0, ""), ("A", 0, ""), ("a", 3, "x.E"), ("a", 3, "x.e"), ("a", 2, "x.e")]:
        ended(code=code, outcome=RunOutcome(outcome), error=error)
    assert Statistic.objects.filter(grain=60).count() == 5


@pytest.mark.django_db
def test_many_keys_are_written_in_several_statements(django_assert_num_queries: Any) -> None:
    counts = {(f"code {number}", 0, ""): cell() for number in range(150)}
    rollup.add("default", counts, NOW)
    rollup.add("default", counts, NOW)
    assert set(Statistic.objects.values_list("runs", flat=True)) == {2}
    assert Statistic.objects.count() == 450


def test_counts_of_several_executors_add_up(live_db: str) -> None:
    """Each adds to the same rows at the same time: none is lost, and no deadlock is left to the caller."""
    threads, rounds = 4, 5
    together = Barrier(threads)

    def add(number: int) -> None:
        keys = [(f"code {key}", 0, "") for key in range(10)]
        for _ in range(rounds):
            together.wait(60)
            rollup.add("default", {key: cell(2) for key in (keys if number % 2 else reversed(keys))}, NOW)

    for thread in [start_thread(partial(add, number)) for number in range(threads)]:
        thread.result()
    assert {row.runs for row in Statistic.objects.all()} == {2 * threads * rounds}


@pytest.mark.django_db
def test_what_is_too_old_is_purged_by_grain() -> None:
    for days in (0, 2, 40, 500):
        ended(at=NOW - timedelta(days=days))
    assert rollup.purge("default", NOW, 100) == 3 + 2 + 1
    left = Statistic.objects.order_by("grain", "-start").values_list("grain", flat=True)
    assert list(left) == [60, 3600, 3600, 86400, 86400, 86400]
    assert rollup.purge("default", NOW, 100) == 0


@pytest.mark.django_db
def test_a_purge_deletes_no_more_than_a_batch() -> None:
    for minute in range(5):
        ended(at=NOW - timedelta(days=3, minutes=minute))
    assert rollup.purge("default", NOW, 2) == 2
    assert Statistic.objects.filter(grain=60).count() == 3


@pytest.mark.django_db
@pytest.mark.usefixtures("frozen")
class TestReading:
    def test_rates_by_code(self) -> None:
        ended(30, NOW - 10 * MINUTE)
        ended(4, NOW - 5 * MINUTE, outcome=RunOutcome.RETRIED, error="e")
        ended(2, NOW - 5 * MINUTE, outcome=RunOutcome.FAILED, error="e")
        ended(7, NOW - 20 * MINUTE, code=OTHER)
        ended(50, NOW - 2 * HOUR, code=OTHER)
        mine, other = stats.rates()
        assert (mine.code, mine.total, mine.done, mine.retried, mine.failed) == (CODE, 36, 30, 4, 2)
        assert mine.outcomes == {"done": 30, "retried": 4, "failed": 2}
        assert mine.rate == pytest.approx(36 / 3540)
        assert (other.code, other.total) == (OTHER, 7)
        assert [runs.total for runs in stats.rates(timedelta(days=1))] == [57, 36]

    def test_series_has_every_period(self) -> None:
        ended(3, NOW)
        ended(2, NOW - 59 * MINUTE)
        ended(2, NOW - 60 * MINUTE)
        ended(1, NOW, code=OTHER)
        series = stats.series()
        assert (len(series), series[0].start, series[-1].start) == (60, NOW - 59 * MINUTE, NOW)
        assert [runs.total for runs in series if runs.total] == [2, 4]
        assert [runs.total for runs in stats.series(code=OTHER) if runs.total] == [1]

    @pytest.mark.parametrize(("last", "periods"), [(HOUR, 60), (timedelta(days=1), 24), (timedelta(days=30), 30)])
    def test_periods(self, last: timedelta, periods: int) -> None:
        assert len(stats.series(last)) == periods

    def test_failures_by_code_and_error(self) -> None:
        ended(5, NOW - 5 * MINUTE, outcome=RunOutcome.RETRIED, error="x.Timeout")
        ended(2, NOW - MINUTE, outcome=RunOutcome.FAILED, error="x.Timeout")
        ended(3, NOW, outcome=RunOutcome.LOST, error="died", code=OTHER)
        ended(90, NOW)
        ended(1, NOW, outcome=RunOutcome.CANCELLED)
        first, second = stats.failures()
        assert (first.code, first.error, first.count, first.final, first.lost) == (CODE, "x.Timeout", 7, 2, 0)
        assert first.latest == NOW - MINUTE
        assert (second.code, second.count, second.final, second.lost) == (OTHER, 3, 0, 3)
        assert sorted((runs.code, runs.failed, runs.lost) for runs in stats.rates()) == [(OTHER, 0, 3), (CODE, 2, 0)]


class TestDurations:
    def test_none(self) -> None:
        durations = Durations([0] * 13, timedelta(), timedelta())
        assert (durations.count, durations.mean, durations.percentile(50)) == (0, None, None)

    def test_a_percentile_lies_in_its_bucket(self) -> None:
        counted = cell(90, late=0.02)
        counted = merged(counted, cell(10, late=5))
        durations = Durations(folded(counted.late), counted.late_sum, counted.late_max)
        assert durations.mean == timedelta(seconds=(90 * 0.02 + 10 * 5) / 100)
        median, high = durations.percentile(50), durations.percentile(95)
        assert median is not None
        assert high is not None
        assert BOUNDS[0] < median <= BOUNDS[1]
        assert timedelta(seconds=3) < high <= timedelta(seconds=5)

    def test_never_longer_than_the_longest(self) -> None:
        counted = cell(4, late=7200)
        durations = Durations(folded(counted.late), counted.late_sum, counted.late_max)
        assert durations.percentile(100) == timedelta(seconds=7200)

    @pytest.mark.parametrize("bound", range(len(BOUNDS)))
    def test_a_bound_belongs_to_its_bucket(self, bound: int) -> None:
        counted = Cell()
        counted.count(1, [BOUNDS[bound]], [BOUNDS[bound] + timedelta(microseconds=1)])
        assert (folded(counted.late)[bound], folded(counted.took)[bound + 1]) == (1, 1)

    def test_cells_have_finer_buckets_than_the_rollup(self) -> None:
        counted = Cell()
        for milliseconds in (1, 2, 3, 4, 10, 11):
            counted.count(1, [timedelta(milliseconds=milliseconds)], [])
        assert (counted.late[:4], folded(counted.late)[:2]) == ([1, 2, 2, 1], [5, 1])

    def test_runs_that_are_counted_together_need_not_be_alike(self) -> None:
        second, minute = timedelta(seconds=1), timedelta(minutes=1)
        together, one_by_one = Cell(), Cell()
        late, took = [second, -HOUR, minute, second], [minute, second, second]
        together.count(4, late, took)
        for duration in late:
            one_by_one.count(1, [duration], [])
        for duration in took:
            one_by_one.count(0, [], [duration])
        assert together == one_by_one
        assert (together.late_sum, together.late_max) == (minute + 2 * second, minute)
        assert (together.took_sum, together.took_max) == (minute + 2 * second, minute)

    def test_a_run_before_its_time_is_not_late(self) -> None:
        counted = Cell()
        counted.count(1, [-HOUR], [])
        assert (counted.late[0], counted.late_sum, sum(counted.took)) == (1, timedelta(), 0)
