"""A single task is a batch of one: what holds for the run of one task holds for that of many."""

from collections.abc import Callable
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from django_delayed_tasks import TaskRun, signals
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.batches import batched, claim_some, effects, write
from tests.executor.parts import add, executing, handler_of
from tests.executor.runs import run
from tests.recurring.machine import MINUTE, NOON, HandClock
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def one_by_one(handle: Callable[[Any], Any], **attributes: Any) -> TaskHandler:
    return handler_of(handle, **attributes)


def together(handle: Callable[[Any], Any], **attributes: Any) -> TaskHandler:
    return batched(lambda tasks: [handle(task) for task in tasks], **attributes)


ways = pytest.mark.parametrize(("count", "handler_for"), [(1, one_by_one), (1, together), (3, together)])


@ways
@pytest.mark.parametrize("atomic", [False, True])
def test_what_receivers_of_run_started_take_is_no_part_of_the_run(count: int, handler_for: Any, atomic: bool) -> None:
    hand = HandClock()

    def take_time(**_: Any) -> None:
        hand.moment += 5 * MINUTE

    def handle(task: Any) -> None:
        hand.moment += MINUTE

    signals.run_started.connect(take_time)
    try:
        end = run(claim_some(count), handler_for(handle, atomic=atomic, max_lateness=None), hand)
    finally:
        signals.run_started.disconnect(take_time)
    settle("default", end.left)
    called, finished = NOON + count * 5 * MINUTE, NOON + count * 6 * MINUTE
    assert list(TaskRun.objects.values_list("started", "finished")) == [(called, finished)] * count


@ways
def test_a_lost_claim_is_logged(count: int, handler_for: Any, caplog: pytest.LogCaptureFixture) -> None:
    tasks = claim_some(count)
    settle("default", [Settlement(tasks[0].claim, RunOutcome.LOST, NextState.RESCUED)])
    run(tasks, handler_for(write, atomic=True), DatabaseClock())
    assert effects() == set()
    assert [text for text in caplog.messages if "the run changed nothing" in text] == [
        "code 0: the claim is gone; the run changed nothing"
    ]


@ways
def test_what_ends_a_run_from_inside_ends_all_its_claims(count: int, handler_for: Any) -> None:
    def leave(**_: Any) -> None:
        raise SystemExit

    signals.run_started.connect(leave)
    try:
        end = run(claim_some(count), handler_for(write), DatabaseClock())
    finally:
        signals.run_started.disconnect(leave)
    assert [settlement.outcome for settlement in end.left] == [RunOutcome.RETRIED] * count
    assert effects() == set()


@pytest.mark.parametrize(("keep_history", "kept"), [("all", {"0", "late"}), ("none", set())])
def test_of_what_a_hanging_run_refused_the_history_keeps_what_the_handler_says(
    keep_history: str, kept: set[str]
) -> None:
    """The watchdog settles it, with the rest of the batch."""
    go_on, failed = Event(), []
    batched(
        lambda tasks: go_on.wait(60) and None, timeout=0.2, max_attempts=1, max_lateness=60, keep_history=keep_history,
        on_failed=lambda self, task, error: failed.append(task.biz_num),
    )  # fmt: skip
    add("0")
    add("late", when=timedelta(hours=-1))
    with executing(threads=10) as executor:
        wait_until(lambda: failed and not len(executor.held))
        go_on.set()
    assert set(TaskRun.objects.values_list("biz_num", flat=True)) == kept
