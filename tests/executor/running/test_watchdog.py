"""Which runs are given up for lost."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.executor.running.current_run import Running
from django_delayed_tasks.executor.running.watchdog import Watchdog
from django_delayed_tasks.states import RunOutcome
from tests.executor.parts import Bench, add, claim, handler_of, registered

pytestmark = pytest.mark.django_db


def test_what_began_in_time_has_run_however_late_that_is_noticed(bench: Bench) -> None:
    handler_of(lambda task: None, timeout=1, max_lateness=10)
    add(when=timedelta(seconds=-9))
    tasks = claim(registered())
    pool: Any = None
    watchdog = Watchdog(pool, bench.awaited, bench.queue, bench.held, bench.clock)
    bench.clock.set(clock.host_now() + timedelta(seconds=5))
    watchdog._take(Running(tasks, began=clock.monotonic() - 5), "its thread is given up")
    with pytest.raises(ClaimLost):
        tasks[0].progress(0.5)
    [settlement] = bench.released
    assert settlement.outcome == RunOutcome.RETRIED
    assert settlement.started
    assert settlement.finished
    assert timedelta(seconds=4.9) < settlement.finished - settlement.started < timedelta(seconds=30)
