"""The forecast: what becomes due when, read live and continued from the survey."""

from datetime import UTC, timedelta
from itertools import pairwise
from typing import Any

import pytest

from django_delayed_tasks import clock, pause_queue, stats
from django_delayed_tasks.executor.membership import surveyor
from django_delayed_tasks.executor.membership.surveyor import take_survey
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats import snapshot
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, OTHER, executor, new_task, task
from tests.stats.fills import ended

DAY = timedelta(days=1)
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen"), pytest.mark.per_database]


def fill(*tasks: Task) -> None:
    Task._base_manager.bulk_create(tasks)


def found(bars: list[stats.Bar]) -> dict[Any, dict[str, int]]:
    """The bars that are not empty, by how far ahead of NOW they begin."""
    return {bar.start - NOW: bar.codes for bar in bars if bar.total}


def test_by_minute_hour_and_day() -> None:
    fill(
        new_task("1", NOW + 5 * MINUTE + timedelta(seconds=30)),
        new_task("2", NOW + 5 * MINUTE + timedelta(seconds=40), biz_code=OTHER),
        new_task("3", NOW + 5 * HOUR),
        new_task("4", NOW + 5 * DAY),
        new_task("5", NOW + 90 * DAY),
        new_task("late", NOW - MINUTE, claim_at=NOW - MINUTE),
        new_task("failed", NOW + MINUTE, status=TaskStatus.FAILED),
    )
    forecast = stats.forecast()
    assert (len(forecast.hour), len(forecast.day), len(forecast.month)) == (60, 25, 31)
    assert found(forecast.hour) == {5 * MINUTE: {CODE: 1, OTHER: 1}}
    assert [bar.codes for bar in forecast.day if bar.total] == [{CODE: 1, OTHER: 1}, {CODE: 1}]
    assert [bar.codes for bar in forecast.month if bar.total] == [{CODE: 2, OTHER: 1}, {CODE: 1}]
    assert (forecast.exact_until, forecast.surveyed_at) == (None, None)


@pytest.mark.parametrize("past", [-10, 0, 10])
def test_the_last_part_belongs_to_the_time(past: int) -> None:
    """However much of an hour or a day has passed, all runs of the next hour, day and 30 days are told."""
    nightly = NOW + 30 * MINUTE
    task("1", nightly if past < 0 else nightly + DAY, trigger="Interval(days=1)")
    with clock.frozen_at(nightly + past * MINUTE + timedelta(seconds=20)):
        task("2", clock.host_now() + timedelta(seconds=30), trigger="Interval(minutes=1)", biz_code=OTHER)
        forecast = stats.forecast()
    assert [sum(bar.codes.get(CODE, 0) for bar in bars) for bars in (forecast.day, forecast.month)] == [1, 30]
    assert (len(forecast.hour), sum(bar.codes.get(OTHER, 0) for bar in forecast.hour)) == (61, 60)


def test_hours_of_a_day_on_which_clocks_change() -> None:
    """The last Sunday of October has 25 hours in Berlin, that of March 23; each bar has one of them."""
    for month, day in ((10, 25), (3, 29)):
        with clock.frozen_at(NOW.replace(month=month, day=day, hour=12, minute=10)):
            starts = [bar.start for bar in stats.forecast().day]
        assert {later - earlier for earlier, later in pairwise(start.astimezone(UTC) for start in starts)} == {HOUR}
        assert len(starts) == 25


def test_no_bar_is_empty_because_the_time_ends_where_it_begins() -> None:
    with clock.frozen_at(NOW.replace(hour=22, minute=0)):  # 00:00 in Berlin
        forecast = stats.forecast()
    assert (len(forecast.hour), len(forecast.day), len(forecast.month)) == (60, 24, 30)


def test_a_month_with_the_end_of_summer_time() -> None:
    with clock.frozen_at(NOW.replace(month=10, day=1, hour=22, minute=30)):  # 00:30 in Berlin, 23:30 in absolute days
        starts = [bar.start for bar in stats.forecast().month]
    assert len(starts) == 31
    assert starts == sorted(starts)


@pytest.mark.parametrize("surveyed", [False, True])
def test_recurring_tasks_by_their_triggers(surveyed: bool) -> None:
    task("1", NOW + MINUTE, trigger="Interval(minutes=20)")
    if surveyed:
        take_survey("default")
    assert found(stats.forecast().hour) == {number * MINUTE: {CODE: 1} for number in (1, 21, 41)}


def test_a_recurring_task_that_has_run_since_the_survey_is_not_counted_twice() -> None:
    first = task("1", NOW + MINUTE, trigger="Interval(minutes=20)")
    take_survey("default")
    Task._base_manager.filter(pk=first.pk).update(when=NOW + 21 * MINUTE, claim_at=NOW + 21 * MINUTE)
    with clock.frozen_at(NOW + 2 * MINUTE):
        assert found(stats.forecast().hour) == {number * MINUTE: {CODE: 1} for number in (21, 41, 61)}


def test_recurring_codes_for_which_the_survey_has_no_room_are_not_counted_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(surveyor, "MAX_CODES", 1)
    for code in (CODE, OTHER):
        task("1", NOW + MINUTE, biz_code=code, trigger="Interval(minutes=20)")
    take_survey("default")
    assert sum(bar.total for bar in stats.forecast().hour) == 6


class TestContinued:
    """More tasks than are read live: what follows is the survey's."""

    @pytest.fixture(autouse=True)
    def few_live(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(snapshot, "COUNTED", 20)
        fill(*(new_task(f"{i}", NOW + i * MINUTE + timedelta(seconds=10), queue=f"q{i % 2}") for i in range(1, 59)))

    def test_without_a_survey_only_the_next_ones_are_known(self) -> None:
        forecast = stats.forecast()
        assert sum(bar.total for bar in forecast.hour) == 19  # of the minute that ends the two reads, one
        assert forecast.exact_until == NOW + 19 * MINUTE + timedelta(seconds=10)

    def test_nothing_is_left_out_or_counted_twice(self) -> None:
        take_survey("default")
        assert found(stats.forecast().hour) == {number * MINUTE: {CODE: 1} for number in range(1, 59)}

    def test_what_was_added_since_is_seen_where_it_is_read_live(self) -> None:
        take_survey("default")
        fill(new_task("new", NOW + 3 * MINUTE), new_task("newer", NOW + 50 * MINUTE))
        bars = stats.forecast().hour
        assert [bar.start - NOW for bar in bars if bar.total > 1] == [3 * MINUTE]

    def test_far_ahead_the_survey_tells_hours(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Task._base_manager.all().delete()
        fill(*(new_task(f"{i}", NOW + 3 * DAY + i * MINUTE, queue=f"q{i % 2}") for i in range(100)))
        take_survey("default")
        assert sum(bar.total for bar in stats.forecast().month) == 100


class TestPeak:
    def test_the_last_start_at_the_highest_rate(self) -> None:
        ended(600, NOW - HOUR)
        ended(1200, NOW - 5 * HOUR)  # twenty a second
        ended(90_000, NOW - 30 * HOUR)
        fill(*(new_task(f"{i}", NOW + 2 * HOUR) for i in range(120)))
        executor(codes=[CODE])
        take_survey("default")
        peak = stats.forecast().peak
        assert peak == stats.Peak(NOW + 2 * HOUR, 120, 20.0, NOW + 2 * HOUR + timedelta(seconds=6), [])

    def test_what_ran_of_other_codes_tells_nothing(self) -> None:
        executor(codes=[CODE, OTHER])
        ended(1200, NOW - HOUR, code=OTHER)
        fill(*(new_task(f"{i}", NOW + 2 * HOUR) for i in range(120)))
        take_survey("default")
        peak = stats.forecast().peak
        assert peak is not None
        assert (peak.rate, peak.last_start) == (0.0, None)
        ended(120, NOW - HOUR)
        fill(*(new_task(f"{i}", NOW + 2 * HOUR, biz_code=OTHER) for i in range(1200)))
        take_survey("default")
        both = stats.forecast().peak
        assert both == stats.Peak(NOW + 2 * HOUR, 1320, 11.0, NOW + 2 * HOUR + 2 * MINUTE, [])

    @pytest.mark.parametrize("is_surveyed", [True, False])
    def test_no_start_is_promised_where_nothing_runs(self, is_surveyed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whether its tasks are read one by one, or known from the survey."""
        if is_surveyed:
            monkeypatch.setattr(snapshot, "COUNTED", 20)
        ended(1200, NOW - HOUR)
        executor(codes=[CODE], queues=["default", "paused"])
        fill(*(new_task(f"{i}", NOW + 2 * HOUR, queue=("gpu", "paused", "default")[i % 3]) for i in range(120)))
        fill(new_task("elsewhere", NOW + 3 * HOUR, queue="other", biz_code=OTHER))
        pause_queue("paused")
        take_survey("default")
        peak = stats.forecast().peak
        assert peak is not None
        assert (peak.tasks, peak.last_start, peak.held) == (120, None, ["gpu", "paused"])

    def test_without_runs_there_is_no_rate(self) -> None:
        fill(*(new_task(f"{i}", NOW + 2 * HOUR) for i in range(120)))
        peak = stats.forecast().peak
        assert peak is not None
        assert (peak.tasks, peak.last_start) == (120, None)

    def test_few_tasks_are_no_peak(self) -> None:
        fill(*(new_task(f"{i}", NOW + 2 * HOUR) for i in range(99)))
        assert stats.forecast().peak is None

    def test_later_than_a_day_is_no_peak(self) -> None:
        fill(*(new_task(f"{i}", NOW + 2 * DAY) for i in range(120)))
        assert stats.forecast().peak is None


def test_days_are_local(settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Shanghai"
    midnight = NOW.replace(hour=16, minute=0)  # 00:00 in Shanghai
    fill(new_task("1", midnight - timedelta(seconds=1)), new_task("2", midnight))
    assert [bar.total for bar in stats.forecast().month][:2] == [1, 1]
