"""Which runs are given up for lost."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.executor.running.watchdog import Watchdog
from django_delayed_tasks.executor.running.worker import Running
from django_delayed_tasks.states import RunOutcome
from tests.executor.parts import Bench, add, claim, handler_of, registered

pytestmark = pytest.mark.django_db


def test_what_began_in_time_has_run_however_late_that_is_noticed(bench: Bench) -> None:
    handler_of(lambda task: None, timeout=1, max_lateness=10)
    add(when=timedelta(seconds=-9))
    tasks = claim(registered())
    pool: Any = None
    watchdog = Watchdog(pool, bench.queue, bench.held, bench.clock)
    worker: Any = SimpleNamespace(name="worker-1")
    bench.clock.set(clock.host_now() + timedelta(seconds=5))
    watchdog._take(worker, Running(tasks, began=clock.monotonic() - 5))
    [settlement] = bench.released
    assert settlement.outcome == RunOutcome.RETRIED
    assert settlement.started
    assert settlement.finished
    assert timedelta(seconds=4.9) < settlement.finished - settlement.started < timedelta(seconds=30)
