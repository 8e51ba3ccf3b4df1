"""The tasks of a batch that may not start any more are settled without a run, whatever becomes of the rest."""

from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from django_delayed_tasks import TaskRun, signals
from django_delayed_tasks.clock import DatabaseClock, monotonic
from django_delayed_tasks.executor.running.run_queue import REMEMBERED, BrokenBatches
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.settling.settle import settle
from tests.executor.batches import add_some, batched, claim_some, outcomes
from tests.executor.parts import add, claim, executing, registered
from tests.executor.runs import run
from tests.recurring.machine import MINUTE, NOON, HandClock
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def raise_error(tasks: list[Any]) -> None:
    raise ValueError("no")


def claimed(count: int) -> list[Any]:
    """Claim ``count`` tasks that are in time, and one that is too late."""
    add_some(count)
    add("late", when=timedelta(hours=-1))
    return claim(registered())


def claim_with_a_broken_trigger() -> list[Any]:
    add("broken")
    Task._base_manager.filter(biz_num="broken").update(trigger="nonsense")
    return claim(registered("of the broken one"))


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_when_the_rest_is_done(count: int, atomic: bool) -> None:
    handler = batched(lambda tasks: None, atomic=atomic, max_lateness=60)
    settle("default", run(claimed(count), handler, DatabaseClock()).left)
    assert outcomes() == {str(number): RunOutcome.DONE for number in range(count)} | {"late": RunOutcome.EXPIRED}
    assert not Task.objects.exists()


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_when_the_rest_raises(count: int, atomic: bool) -> None:
    handler = batched(raise_error, atomic=atomic, max_lateness=60)
    end = run(claimed(count), handler, DatabaseClock())
    assert len(end.left) + len(end.alone) == count + 1
    settle("default", end.left)
    for task in end.alone:
        settle("default", run([task], handler, DatabaseClock()).left)
    assert outcomes() == {str(number): RunOutcome.RETRIED for number in range(count)} | {"late": RunOutcome.EXPIRED}


@pytest.mark.parametrize("atomic", [False, True])
def test_when_a_receiver_ends_the_run(atomic: bool) -> None:
    """A task whose trigger cannot be read, so that it has no next time, does not leave the others unsettled."""
    handler = batched(lambda tasks: None, atomic=atomic, max_lateness=60, max_attempts=1)
    tasks = [*claimed(2), *claim_with_a_broken_trigger()]

    def leave(**_: Any) -> None:
        raise SystemExit

    signals.run_started.connect(leave)
    try:
        end = run(tasks, handler, DatabaseClock())
    finally:
        signals.run_started.disconnect(leave)
    settle("default", end.left)
    assert outcomes() == dict.fromkeys(["0", "1", "broken"], RunOutcome.FAILED) | {"late": RunOutcome.EXPIRED}


def test_the_history_keeps_of_it_what_the_handler_says() -> None:
    handler = batched(lambda tasks: None, max_lateness=60, keep_history="none")
    settle("default", run(claimed(1), handler, DatabaseClock()).left)
    assert not TaskRun.objects.exists()


def test_when_the_rest_hangs() -> None:
    """The watchdog, which settles all of it, must not say of this one that it has run."""
    go_on = Event()
    batched(lambda tasks: go_on.wait(60) and None, timeout=0.2, max_attempts=1, max_lateness=60)
    add_some(2)
    add("late", when=timedelta(hours=-1))
    with executing(threads=10):
        wait_until(lambda: TaskRun.objects.count() == 3)
        go_on.set()
    assert outcomes() == {"0": RunOutcome.FAILED, "1": RunOutcome.FAILED, "late": RunOutcome.EXPIRED}


@pytest.mark.parametrize("atomic", [False, True])
def test_each_is_announced_and_none_that_was_refused(atomic: bool) -> None:
    told: list[str] = []

    def note(**sent: Any) -> None:
        told.append(sent["task"].biz_num)

    signals.run_finished.connect(note)
    try:
        run(claimed(2), batched(lambda tasks: None, atomic=atomic, max_lateness=60), DatabaseClock())
    finally:
        signals.run_finished.disconnect(note)
    assert told == ["0", "1"]


@pytest.mark.parametrize("atomic", [False, True])
def test_all_of_it_lasts_as_long_as_the_call(atomic: bool) -> None:
    hand = HandClock()

    def take_time(tasks: list[Any]) -> None:
        hand.moment += MINUTE

    end = run(claim_some(2), batched(take_time, atomic=atomic), hand)
    settle("default", end.left)
    assert set(TaskRun.objects.values_list("started", "finished")) == {(NOON, NOON + MINUTE)}


def test_what_broke_a_batch_is_put_together_again_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [monotonic()]
    monkeypatch.setattr(f"{BrokenBatches.__module__}.monotonic", lambda: now[0])
    tasks, broken = claim_some(2), BrokenBatches()
    broken.note(tasks)
    now[0] += REMEMBERED - 1
    assert tasks[0] in broken
    now[0] += 2
    assert tasks[0] not in broken
