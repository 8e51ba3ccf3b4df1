"""What the receivers of each signal are given: all arguments, and the handler's class as the sender."""

from typing import Any

import pytest

from django_delayed_tasks import Fail, signals
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.parts import add, drain, handler_of

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = ("run_started", "run_finished", "task_failed")


@pytest.fixture
def seen() -> Any:
    """The arguments that receivers got, by the name of the signal."""
    got: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
    receivers = {name: lambda name=name, **given: got[name].append(given) for name in NAMES}
    for name, receiver in receivers.items():
        getattr(signals, name).connect(receiver)
    yield got
    for name, receiver in receivers.items():
        getattr(signals, name).disconnect(receiver)


@pytest.mark.parametrize("atomic", [False, True])
def test_all_arguments(atomic: bool, seen: dict[str, list[dict[str, Any]]]) -> None:
    handler = handler_of(lambda task: Fail("no"), atomic=atomic, max_attempts=1)
    add("order-1")
    drain()
    [started], [finished], [failed] = (seen[name] for name in NAMES)

    for given in (started, finished, failed):
        assert given["sender"] is type(handler)
        assert given["task"].biz_num == "order-1"
    assert started["signal"] is signals.run_started
    assert started.keys() == {"signal", "sender", "task", "handler"}
    assert started["handler"] is handler

    assert finished["signal"] is signals.run_finished
    assert finished.keys() == {"signal", "sender", "task", "handler", "decision", "exception"}
    assert finished["handler"] is handler
    assert isinstance(finished["decision"], Settlement)
    assert (finished["decision"].outcome, finished["decision"].then) == (RunOutcome.FAILED, NextState.FAILED)

    assert failed["signal"] is signals.task_failed
    assert failed.keys() == {"signal", "sender", "task", "error", "exception"}
    assert failed["error"] == "no"


def test_a_good_end_has_no_exception_and_is_no_failure(seen: dict[str, list[dict[str, Any]]]) -> None:
    handler_of(lambda task: None)
    add()
    drain()
    [finished] = seen["run_finished"]
    assert (finished["decision"].outcome, finished["exception"]) == (RunOutcome.DONE, None)
    assert seen["task_failed"] == []
