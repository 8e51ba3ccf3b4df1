"""The duties of an executor: each has its turn, and again soon where there is more of it to do."""

from collections.abc import Callable
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.executor.membership import housekeeping as housekeeping_module
from django_delayed_tasks.executor.threads.loop import TICK
from django_delayed_tasks.models import Executor, Resource, Success, Task, TaskRun
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.failure_reports import Told
from tests.executor.membership.test_housekeeping import housekeeping, orphan, runs
from tests.executor.parts import Bench, add, claim, handler_of, registered
from tests.store.resources.taking import take_slots

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """``later(seconds)``: advance the monotonic clock of this host by that, and stop it there."""
    passed = [clock.monotonic()]
    monkeypatch.setattr(clock, "monotonic", lambda: passed[0])

    def pass_by(seconds: float) -> None:
        passed[0] += seconds

    return pass_by


def leave_something_of_everything() -> None:
    """History, a success that is remembered, a slot, and an executor that has ended."""
    runs(2)
    add("once")
    [task] = claim(registered("with slots"))
    take_slots("default", "code", 1, {"": [task.claim]}, 1)
    settle("default", [Settlement(task.claim, RunOutcome.DONE, NextState.GONE, once=True)])
    Executor.objects.filter(name__in=["writer", "with slots"]).update(alive=None)


def test_all_are_done_at_the_first_tick(make_bench: Any) -> None:
    bench = make_bench(keep_history=DAY, once_retention=DAY)
    leave_something_of_everything()
    left = (TaskRun, Success, Resource, Executor)
    assert [model.objects.count() for model in left] == [3, 1, 1, 3]
    with clock.frozen_at(clock.host_now() + 10 * DAY):
        executors.renew("default", bench.lease.executor, timedelta(seconds=15))
        housekeeping(bench).tick()
    assert [model.objects.count() for model in left] == [0, 0, 0, 1]


def test_what_is_young_stays(make_bench: Any) -> None:
    bench = make_bench(keep_history=DAY, once_retention=DAY)
    leave_something_of_everything()
    housekeeping(bench).tick()
    left = (TaskRun, Success, Resource, Executor)
    assert [model.objects.count() for model in left] == [3, 1, 1, 3]


def test_a_backlog_is_purged_without_a_pause(
    make_bench: Any, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch after batch, between which other duties have their turn."""
    monkeypatch.setattr(housekeeping_module, "MAX_PURGED", 2)
    bench = make_bench(keep_history=DAY)
    runs(5)
    left: list[int] = []
    with clock.frozen_at(clock.host_now() + 10 * DAY):
        executors.renew("default", bench.lease.executor, timedelta(seconds=15))
        keeper = housekeeping(bench)
        for _ in range(4):
            keeper.tick()
            left.append(TaskRun.objects.count())
            later(0.11)
    assert left == [3, 1, 0, 0]


def test_a_duty_that_is_done_waits_for_its_period(make_bench: Any, later: Callable[[float], None]) -> None:
    handler_of(lambda task: None)
    bench = make_bench(keep_history=DAY)
    keeper = housekeeping(bench)
    keeper.tick()
    with clock.frozen_at(clock.host_now() + 10 * DAY):
        executors.renew("default", bench.lease.executor, timedelta(seconds=15))
        runs(1)
    with clock.frozen_at(clock.host_now() + 20 * DAY):
        executors.renew("default", bench.lease.executor, timedelta(seconds=15))
        bench.clock.set(clock.host_now())
        later(7.0)
        keeper.tick()
        assert TaskRun.objects.exists()
        later(6.0)
        keeper.tick()
        assert not TaskRun.objects.exists()


def test_what_was_taken_from_the_dead_is_looked_for_at_once(bench: Bench) -> None:
    """It is due: the pollers of this process need not sleep on."""
    woken = Event()
    orphan()
    wakeup.enlist(woken)
    try:
        housekeeping(bench).tick()
    finally:
        wakeup.dismiss(woken)
    assert woken.is_set()


def test_a_rescue_is_no_failure(bench: Bench) -> None:
    failures = Told()
    orphan()
    housekeeping(bench, failures).tick()
    assert failures.told == []


def test_it_does_not_sleep_past_the_end_of_a_lease(bench: Bench) -> None:
    moment = clock.host_now()
    with clock.frozen_at(moment):
        keeper = housekeeping(bench)
        assert keeper.tick() == TICK
        registered("other", lease=0.05)
        keeper.refresh_peers()
        assert keeper.tick() < 0.06


def test_after_one_lease_has_run_out_the_next_one_is_watched(bench: Bench) -> None:
    """At once, and not when it is time to look around again."""
    for name, seconds in (("first", 5.0), ("second", 8.0)):
        add(name)
        claim(registered(name, lease=seconds))
    keeper = housekeeping(bench)
    keeper.tick()
    moment = Executor.objects.get(name="first").started_at
    for seconds, left in ((6.0, ["second"]), (20.0, [])):
        with clock.frozen_at(moment + timedelta(seconds=seconds)):
            executors.renew("default", bench.lease.executor, timedelta(seconds=15))
            keeper.tick()
            running = Task.objects.filter(status=TaskStatus.RUNNING)
            assert list(running.values_list("biz_num", flat=True)) == left
