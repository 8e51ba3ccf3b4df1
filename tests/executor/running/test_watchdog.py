"""Which runs are given up for lost."""

from datetime import timedelta

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.executor.running.watchdog import settle_abandoned
from django_delayed_tasks.states import RunOutcome
from tests.executor.parts import Bench, add, claim, handler_of, registered

pytestmark = pytest.mark.django_db


def test_what_began_in_time_has_run_however_late_that_is_noticed(bench: Bench) -> None:
    handler_of(lambda task: None, timeout=1, max_lateness=10)
    add(when=timedelta(seconds=-9))
    tasks = claim(registered())
    bench.clock.set(clock.host_now() + timedelta(seconds=5))
    running = CurrentRun(tasks, began=clock.monotonic() - 5)
    assert running.abandon()
    settle_abandoned(running, bench.held, bench.clock, "its thread is given up")
    with pytest.raises(ClaimLost):
        tasks[0].progress(0.5)
    [settlement] = bench.released
    assert settlement.outcome == RunOutcome.RETRIED
    assert settlement.started
    assert settlement.finished
    assert timedelta(seconds=4.9) < settlement.finished - settlement.started < timedelta(seconds=30)
