"""One run, from the handler to its settlement."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import Fail, Retry, signals
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.schedules.verbs import cancel
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.parts import add, claim, claim_one, drain, handler_of, registered
from tests.executor.runs import run_one
from tests.recurring.machine import MINUTE, NOON, HandClock

pytestmark = pytest.mark.django_db


def settlement_of(result: Settlement | None) -> Settlement:
    assert result is not None
    return result


def test_the_handler_sees_its_task() -> None:
    seen: list[Any] = []
    handler = handler_of(
        lambda task: seen.append((task.biz_code, task.biz_num, task.biz_ext, task.attempts, task.cancel_requested))
    )
    result = run_one(claim_one(num="n", biz_ext={"a": [1]}), handler, DatabaseClock())
    assert settlement_of(result).then is NextState.GONE
    assert seen == [("code", "n", {"a": [1]}, 1, False)]


def test_a_cancel_request_is_seen() -> None:
    seen: list[bool] = []
    handler = handler_of(lambda task: seen.append(task.cancel_requested))
    task = claim_one()
    cancel("default", "code", "1")
    run_one(task, handler, DatabaseClock())
    assert seen == [True]


def test_a_cancel_request_is_looked_up_once_a_second(django_assert_num_queries: Any) -> None:
    handler = handler_of(lambda task: [task.cancel_requested for _ in range(100)] and None)
    task = claim_one()
    with django_assert_num_queries(1):
        run_one(task, handler, DatabaseClock())


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_whatever_is_raised_is_a_failed_attempt(error: BaseException) -> None:
    def handle(task: Any) -> None:
        raise error

    settlement = settlement_of(run_one(claim_one(), handler_of(handle), DatabaseClock()))
    assert settlement.then is NextState.RETRY
    assert "Traceback" in settlement.error
    assert type(error).__name__ in settlement.error


class Unspeakable:
    """Raises whatever is asked of it."""

    def __str__(self) -> str:
        raise SystemExit("no words")

    __repr__ = __str__


@pytest.mark.parametrize("result", [Fail(Unspeakable()), Retry(reason=Unspeakable()), Unspeakable()])  # type: ignore[arg-type]
def test_a_result_that_misbehaves_is_settled_all_the_same(result: Any) -> None:
    settlement = settlement_of(run_one(claim_one(), handler_of(lambda task: result), DatabaseClock()))
    assert settlement.then is NextState.RETRY
    assert "SystemExit" in settlement.error, settlement.error


@pytest.mark.parametrize("signal", [signals.run_started, signals.run_finished])
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_a_receiver_that_raises_leaves_a_settlement(signal: Any, error: BaseException) -> None:
    def receiver(**_: Any) -> None:
        raise error

    signal.connect(receiver)
    try:
        settlement = settlement_of(run_one(claim_one(), handler_of(lambda task: None), DatabaseClock()))
    finally:
        signal.disconnect(receiver)
    has_run = signal is signals.run_finished or isinstance(error, ValueError)
    assert settlement.then is (NextState.GONE if has_run else NextState.RETRY)


def test_data_that_cannot_be_read_fails_its_own_run_only() -> None:
    task = claim_one()
    task._data = "[" * 100_000
    settlement = settlement_of(run_one(task, handler_of(lambda task: task.biz_ext), DatabaseClock()))
    assert settlement.then is NextState.RETRY
    assert "RecursionError" in settlement.error


def test_an_attribute_that_raises_once_is_a_failed_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [SystemExit("not now")]

    def raise_once(_: Any) -> None:
        if errors:
            raise errors.pop()

    handler = handler_of(lambda task: None)
    monkeypatch.setattr(type(handler), "max_lateness", property(raise_once))
    settlement = settlement_of(run_one(claim_one(), handler, DatabaseClock()))
    assert settlement.then is NextState.RETRY
    assert "SystemExit: not now" in settlement.error


def test_signals_go_around_the_run() -> None:
    order: list[str] = []

    def started(**_: Any) -> None:
        order.append("started")

    def finished(**_: Any) -> None:
        order.append("finished")

    handler = handler_of(lambda task: order.append("handled"))
    signals.run_started.connect(started)
    signals.run_finished.connect(finished)
    try:
        run_one(claim_one(), handler, DatabaseClock())
    finally:
        signals.run_started.disconnect(started)
        signals.run_finished.disconnect(finished)
    assert order == ["started", "handled", "finished"]


def test_reaped_tasks_of_the_dead_do_not_touch_the_living() -> None:
    add("mine")
    claim(registered())
    assert reap("default", 3) == {}


@pytest.mark.django_db(transaction=True)
def test_by_default_the_history_has_the_data_of_runs_that_failed() -> None:
    def handle(task: Any) -> None:
        if task.biz_num != "good":
            raise ValueError

    handler_of(handle, max_attempts=1)
    handler_of(handle, "never", max_attempts=1, keep_data=False)
    for num, code in (("good", "code"), ("bad", "code"), ("bad", "never")):
        add(num, code, biz_ext={"num": num})
    drain()
    runs = TaskRun.objects.order_by("biz_code", "-biz_num").values_list("biz_code", "biz_ext")
    assert list(runs) == [("code", None), ("code", {"num": "bad"}), ("never", None)]


@pytest.mark.parametrize(("keep_history", "is_kept"), [("all", True), ("failures", True), ("none", False)])
def test_of_a_run_that_was_refused_the_history_keeps_what_the_handler_says(keep_history: str, is_kept: bool) -> None:
    handler = handler_of(lambda task: None, max_lateness=60, keep_history=keep_history)
    settlement = settlement_of(run_one(claim_one(when=timedelta(hours=-1)), handler, DatabaseClock()))
    assert (settlement.outcome, settlement.keep) == (RunOutcome.EXPIRED, is_kept)


@pytest.mark.parametrize("is_atomic", [False, True])
def test_a_run_is_as_long_as_its_handler_takes(is_atomic: bool) -> None:
    """What receivers of run_started take before is not counted."""
    hand = HandClock()

    def handle(task: Any) -> None:
        hand.moment += 3 * MINUTE
        raise ValueError("no")

    def receiver(**_: Any) -> None:
        hand.moment += 5 * MINUTE

    signals.run_started.connect(receiver)
    try:
        handler = handler_of(handle, atomic=is_atomic, max_lateness=None)
        settlement = settlement_of(run_one(claim_one(), handler, hand))
    finally:
        signals.run_started.disconnect(receiver)
    assert (settlement.started, settlement.finished) == (NOON + 5 * MINUTE, NOON + 8 * MINUTE)
