"""How long the history keeps the runs of each code, and of codes that this executor has no handler for."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.executor.membership.retention import Retention
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.models import Executor, TaskRun
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store import executors
from tests.executor.membership.test_housekeeping import housekeeping
from tests.executor.parts import Bench, handler_of, registered
from tests.store.meters import UNIT, reads
from tests.store.test_reads import refresh_statistics

pytestmark = [pytest.mark.django_db, pytest.mark.per_database]

DAY = timedelta(days=1)
YEAR = 365 * DAY


def finished(*codes: str, ago: timedelta) -> None:
    """Leave a run of each code in the history."""
    TaskRun.objects.bulk_create(
        TaskRun(
            task_id=1, version=1, biz_code=code, biz_num="1", when=clock.host_now(), attempt=1,
            outcome=RunOutcome.DONE, finished=clock.host_now() - ago,
        ) for code in codes
    )  # fmt: skip


def left() -> set[str]:
    """The codes that have runs in the history."""
    return set(TaskRun.objects.values_list("biz_code", flat=True))


def no_handler(task: Any) -> None:
    raise AssertionError


def purged(bench: Bench) -> set[str]:
    """What is left after the duties of an executor that has just started."""
    keeper = housekeeping(bench)
    keeper.tick()
    return left()


def test_a_handler_keeps_its_runs_for_longer_and_another_for_less(make_bench: Any) -> None:
    handler_of(no_handler, "weekly", keep_history=YEAR)
    handler_of(no_handler, "minutely", keep_history=timedelta(hours=1))
    handler_of(no_handler, "daily", keep_history="failures")
    finished("weekly", "minutely", "daily", ago=2 * DAY)
    assert purged(make_bench(keep_history=7 * DAY)) == {"weekly", "daily"}
    finished("weekly", "minutely", "daily", ago=8 * DAY)
    assert purged(make_bench(keep_history=7 * DAY, name="other")) == {"weekly", "daily"}
    assert TaskRun.objects.filter(biz_code="daily").count() == 1
    finished("weekly", ago=YEAR + DAY)
    housekeeping(make_bench(keep_history=7 * DAY, name="third")).tick()
    assert TaskRun.objects.filter(biz_code="weekly").count() == 2


def test_a_handler_has_its_period_where_all_else_is_kept_forever(make_bench: Any) -> None:
    handler_of(no_handler, "minutely", keep_history=DAY)
    handler_of(no_handler, "daily")
    finished("minutely", "daily", "gone", ago=1000 * DAY)
    assert purged(make_bench(keep_history=None)) == {"daily", "gone"}


def test_runs_of_a_handler_that_is_gone_are_kept_as_by_default(make_bench: Any) -> None:
    finished("gone", ago=6 * DAY)
    assert purged(make_bench(keep_history=7 * DAY)) == {"gone"}
    finished("gone", ago=8 * DAY)
    assert purged(make_bench(keep_history=7 * DAY, name="other")) == {"gone"}
    assert TaskRun.objects.count() == 1


def test_runs_of_a_handler_that_others_have_are_left_to_them(make_bench: Any) -> None:
    """Another deployment may keep them for longer."""
    registered("elsewhere", codes=("theirs",))
    finished("theirs", "gone", ago=8 * DAY)
    assert purged(make_bench(keep_history=7 * DAY)) == {"theirs"}


def test_another_deployment_may_stand_still_for_as_long_as_the_default(make_bench: Any) -> None:
    """While its executors are replaced, or where they are started once a day."""
    executors.retire("default", registered("elsewhere", codes=("theirs",)))
    finished("theirs", ago=100 * DAY)
    retention = Retention("default", 7 * DAY)
    for ago, expected in ((6.9, {"theirs"}), (7.1, set())):
        Executor.objects.filter(name="elsewhere").update(expires_at=clock.host_now() - ago * DAY)
        retention.refresh_periods()
        retention.purge(100)
        assert left() == expected


def test_a_handler_that_goes_leaves_its_runs_to_the_default() -> None:
    handler_of(no_handler, keep_history=YEAR)
    finished("code", ago=8 * DAY)
    retention = Retention("default", 7 * DAY)
    retention.refresh_periods()
    retention.purge(100)
    assert left() == {"code"}
    registry.clear()
    retention.refresh_periods()
    retention.purge(100)
    assert left() == set()


def test_nothing_is_read_again_while_nothing_changes() -> None:
    handler_of(no_handler, "weekly", keep_history=YEAR)
    finished(*["weekly"] * 5, ago=8 * DAY)
    retention = Retention("default", 7 * DAY)
    retention.refresh_periods()
    assert [retention.purge(2) for _ in range(4)] == [True, True, False, False]
    retention.refresh_periods()
    assert not retention.purge(2)


@pytest.mark.parametrize("strange", [5, True, [["a"]], "text", {"a": 1}])
def test_a_strange_row_of_an_executor_stops_nothing(make_bench: Any, strange: Any) -> None:
    Executor.objects.filter(id=registered("strange")).update(codes=strange)
    finished("gone", ago=8 * DAY)
    assert purged(make_bench(keep_history=7 * DAY)) == set()


def test_the_way_begins_again_when_the_ids_do() -> None:
    """As after TRUNCATE, or from a backup."""
    handler_of(no_handler, "weekly", keep_history=YEAR)
    finished("gone", ago=8 * DAY)
    TaskRun.objects.update(id=1_000_000)
    retention = Retention("default", 7 * DAY)
    retention.refresh_periods()
    retention.purge(100)
    assert left() == set()
    finished("gone", "weekly", ago=8 * DAY)
    for number, pk in enumerate(TaskRun.objects.values_list("pk", flat=True), 1):
        TaskRun.objects.filter(pk=pk).update(id=number)
    retention.purge(100)
    retention.purge(100)
    assert left() == {"weekly"}


def test_rows_with_lower_ids_than_earlier_ones_are_purged_by_the_next_executor() -> None:
    """A row far ahead of the sequence, which is kept for longer, ends no way for ever."""
    handler_of(no_handler, "weekly", keep_history=YEAR)
    finished("weekly", ago=8 * DAY)
    TaskRun.objects.update(id=10**12)
    retention = started()
    retention.purge(100)
    finished("gone", ago=8 * DAY)
    TaskRun.objects.filter(biz_code="gone").update(id=1)
    for later, expected in ((retention, {"weekly", "gone"}), (started(), {"weekly"})):
        later.refresh_periods()
        later.purge(100)
        assert left() == expected


def started() -> Retention:
    """The retention of an executor that keeps runs for a week by default."""
    retention = Retention("default", 7 * DAY)
    retention.refresh_periods()
    return retention


def purge_all(retention: Retention) -> None:
    while retention.purge(1000):
        pass


KEPT = 3000


def test_runs_that_are_kept_are_read_once(live_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again a day later; 3,000 of them."""
    handler_of(no_handler, "weekly", keep_history=YEAR)
    finished(*["weekly"] * KEPT, ago=8 * DAY)
    refresh_statistics(live_db)
    retention = started()
    purge_all(retention)
    monkeypatch.setattr(clock, "monotonic", lambda: 1e9)
    with clock.frozen_at(clock.host_now() + DAY), reads() as meter:
        retention.refresh_periods()
        purge_all(retention)
    assert meter.total <= 200 * UNIT.get(live_db, 1)


def test_a_run_ahead_of_its_time_is_purged_when_that_has_come_and_only_it_is_read_again(live_db: str) -> None:
    handler_of(no_handler, "weekly", keep_history=YEAR)
    finished("gone", ago=-DAY)
    finished(*["weekly"] * KEPT, ago=8 * DAY)
    finished("gone", ago=timedelta())
    refresh_statistics(live_db)
    retention = started()
    now = clock.host_now()
    for days, expected in ((0, 2), (1, 2), (7.5, 1), (8.5, 0)):
        with clock.frozen_at(now + days * DAY):
            retention.refresh_periods()
            with reads() as meter:
                purge_all(retention)
        assert TaskRun.objects.filter(biz_code="gone").count() == expected
        assert not days or meter.total <= 2000 * UNIT.get(live_db, 1)
