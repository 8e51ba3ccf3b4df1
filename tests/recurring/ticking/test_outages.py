"""What becomes of times that pass while no executor runs, or no database answers."""

import os
import signal
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.db.models import F
from pytest_django import DjangoDbBlocker

from django_delayed_tasks import Interval, Task, TaskRun, api
from django_delayed_tasks.clock import host_now
from django_delayed_tasks.executor.running.worker import MAX_HOLD
from django_delayed_tasks.models import Executor
from django_delayed_tasks.states import RunOutcome
from tests.processes.conftest import unknown_codes
from tests.processes.database import database_now
from tests.processes.outages import Outage, private_database
from tests.processes.waiting import wait_until
from tests.recurring.ticking.codes import COMPLETE, FEW, IN_TIME, LATEST, PERIOD, TRIGGERS, grid
from tests.recurring.ticking.conftest import Execute
from tests.recurring.ticking.history import count_done, done, next_time

__all__ = ["unknown_codes"]

HOUR = timedelta(hours=1)

# After an outage of five and a half hours, for a trigger that fires every hour: the hours that are run, from its end.
POLICIES = {
    "coalesce": (Interval(hours=1), [-0.5]),
    "coalesce with a grace": (Interval(hours=1, grace=600), []),
    "skip": (Interval(hours=1, misfire="skip"), []),
    "skip with a grace": (Interval(hours=1, misfire="skip", grace=2700), [-0.5]),
    "catch up": (Interval(hours=1, misfire="catch_up"), [-4.5, -3.5, -2.5, -1.5, -0.5]),
    "catch up with a limit": (Interval(hours=1, misfire="catch_up", limit=3), [-2.5, -1.5, -0.5]),
    "catch up with a grace": (Interval(hours=1, misfire="catch_up", grace=7200), [-1.5, -0.5]),
}


@pytest.mark.usefixtures("live_db", "unknown_codes")
def test_while_no_executor_runs(execute: Execute) -> None:
    begin = database_now()
    for num, (trigger, _) in POLICIES.items():
        api.add_task(Task(biz_code="by-hand", biz_num=num, trigger=trigger, when=begin))
    first = execute("first").wait_until_ready()
    wait_until(lambda: all(hours_of(num, begin) == [0] for num in POLICIES))
    first.send(signal.SIGTERM)
    assert first.exit_code() == 0
    TaskRun.objects.all().delete()

    # Five and a half hours pass: every row becomes that much older.
    Task._base_manager.filter(biz_code="by-hand").update(
        when=F("when") - 5.5 * HOUR, claim_at=F("claim_at") - 5.5 * HOUR
    )
    second = execute("second").wait_until_ready()
    waiting = Task.objects.filter(biz_code="by-hand", when=begin + 0.5 * HOUR)
    wait_until(lambda: waiting.count() == len(POLICIES), what=lambda: str(list(Task.objects.values_list("when"))))
    second.send(signal.SIGTERM)
    assert second.exit_code() == 0
    assert {num: hours_of(num, begin) for num in POLICIES} == {num: hours for num, (_, hours) in POLICIES.items()}
    expired = TaskRun.objects.filter(biz_code="by-hand", outcome=RunOutcome.EXPIRED)
    assert set(expired.values_list("biz_num", flat=True)) == {"coalesce with a grace", "skip"}


def hours_of(num: str, begin: datetime) -> list[float]:
    """The hours, counted from ``begin``, of this task's runs."""
    return [(when - begin) / HOUR for when in done("by-hand", biz_num=num)]


@pytest.fixture
def outage(database: str, tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[Outage]:
    """A database that the test can take away."""
    with django_db_blocker.unblock(), private_database(database, tmp_path) as outage:
        yield outage


class TestWhileTheDatabaseIsAway:
    @pytest.fixture
    def process_environment(self, outage: Outage, database: str) -> dict[str, str]:
        url = {f"DATABASE_URL_{database.upper()}": outage.url}
        return {**os.environ, "DDT_DATABASE": database, **url, **outage.environment}

    def test_executors_continue_as_each_trigger_says(self, outage: Outage, execute: Execute) -> None:
        children = [execute(name).wait_until_ready() for name in ("one", "two")]
        wait_until(lambda: all(done(code) for code in TRIGGERS))
        outage.begin()
        begin = host_now() + timedelta(seconds=MAX_HOLD)  # what is due from here on has not been claimed ahead
        for child in children:
            child.wait_for("heartbeat failed")
        time.sleep(max(0.0, (begin + 10 * PERIOD - host_now()).total_seconds()))
        end = host_now()  # nor before this moment
        outage.end()
        resumed = {code: count_done(code) for code in TRIGGERS}
        wait_until(lambda: all(count_done(code) >= resumed[code] + 5 for code in TRIGGERS))
        wait_until(lambda: all(next_time(code) > end for code in COMPLETE))
        for child in children:
            child.send(signal.SIGTERM)
            assert child.exit_code() == 0, child.output

        missed = grid(begin, end)
        assert len(missed) >= 10
        for code in COMPLETE:
            times = [*done(code), next_time(code)]
            assert times == grid(times[0], times[-1]), "each that was missed is run"
        for code in LATEST:
            assert set(done(code)) & set(missed[:-1]) == set(), "one run for all, at the latest"
        for code in FEW:
            assert set(done(code)) & set(missed[:-3]) == set(), "the three latest are run"
        for code in IN_TIME:
            too_late = grid(begin, end - timedelta(seconds=0.5))
            assert set(done(code)) & set(too_late) == set(), "none that is later than the grace"
        for code in TRIGGERS:
            times = done(code)
            assert times == sorted(set(times)), f"{code} ran a time twice"
            assert set(times) <= set(grid(times[0], times[-1]))
        assert Executor.objects.filter(alive=True).count() == 0
