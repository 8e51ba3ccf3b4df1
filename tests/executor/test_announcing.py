"""The signals of what happens outside of runs: their arguments, and that nothing is computed without receivers."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.dispatch import Signal

from django_delayed_tasks import Task, signals
from django_delayed_tasks.api import add_task, add_tasks, reschedule_task
from django_delayed_tasks.executor import announcing
from django_delayed_tasks.models import Executor, TaskRun
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import AddAction, IfExists
from tests.deaths import crash
from tests.executor.membership.test_housekeeping import housekeeping
from tests.executor.parts import Bench, add, claim, drain, handler_of, registered

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = ("task_added", "task_claimed", "tasks_reaped", "executor_started", "executor_stopped")
Seen = dict[str, list[dict[str, Any]]]


@pytest.fixture
def seen() -> Iterator[Seen]:
    """The arguments that receivers got, by the name of the signal."""
    got: Seen = {name: [] for name in NAMES}

    def receiver_of(signal: str) -> Any:
        return lambda **given: got[signal].append(given)

    receivers = {name: receiver_of(name) for name in NAMES}
    for name, receiver in receivers.items():
        getattr(signals, name).connect(receiver)
    yield got
    for name, receiver in receivers.items():
        getattr(signals, name).disconnect(receiver)


def test_an_added_task(seen: Seen) -> None:
    handler = handler_of(lambda task: None)
    hour = timedelta(hours=1)
    result = add_task(Task(biz_code="code", biz_num="1", when=hour, queue="slow"))
    add_task(Task(biz_code="code", biz_num="1"), if_exists=IfExists.KEEP)
    [given] = seen["task_added"]
    assert given == {
        "signal": signals.task_added, "sender": type(handler), "biz_code": "code", "biz_num": "1", "when": hour,
        "queue": "slow", "using": "default", "result": AddResult(result.task_id, AddAction.CREATED),
    }  # fmt: skip
    reschedule_task("code", "1", None)
    assert len(seen["task_added"]) == 1


def test_added_tasks_are_announced_once_they_are_committed(seen: Seen) -> None:
    with transaction.atomic():
        add_tasks(Task(biz_code="code", biz_num=number) for number in "12")
        assert seen["task_added"] == []
    assert [(given["biz_num"], given["result"], given["sender"]) for given in seen["task_added"]] == [
        ("1", None, type(None)), ("2", None, type(None)),
    ]  # fmt: skip
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        add("3")
        raise ZeroDivisionError
    assert len(seen["task_added"]) == 2


def test_a_claimed_task_and_the_executor_that_claimed_it(seen: Seen) -> None:
    handler = handler_of(lambda task: None)
    add("1")
    drain(name="tester")
    [row] = Executor.objects.all()
    [claimed], [started], [stopped] = (seen[name] for name in ("task_claimed", "executor_started", "executor_stopped"))
    assert claimed.keys() == {"signal", "sender", "task"}
    assert (claimed["sender"], claimed["task"].biz_num, claimed["task"].executor) == (type(handler), "1", row.pk)
    common = {"sender": None, "executor": row.pk, "name": "tester"}
    assert started == {"signal": signals.executor_started, **common}
    assert stopped == {"signal": signals.executor_stopped, "is_clean": True, **common}


def test_reaped_tasks(seen: Seen, bench: Bench) -> None:
    dead = registered()
    for number, code in (("1", "code"), ("2", "code"), ("3", "other")):
        add(number, code)
    assert len(claim(dead)) == 3
    crash(dead)
    housekeeping(bench).reap()
    [reaped] = seen["tasks_reaped"]
    assert (reaped["codes"], reaped["executors"]) == ({"code": 2, "other": 1}, {dead: 3})


def test_a_receiver_that_leaves_ends_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    def leave(**_: Any) -> None:
        raise SystemExit

    handler_of(lambda task: None)
    add()
    signals.task_claimed.connect(leave)
    try:
        drain()
    finally:
        signals.task_claimed.disconnect(leave)
    assert not Task.objects.exists()
    assert "a receiver of task_claimed raised" in caplog.text


def test_a_receiver_that_leaves_a_transaction_open_keeps_no_claim_from_being_committed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def leave_open(**_: Any) -> None:
        transaction.set_autocommit(False)

    handler_of(lambda task: None)
    add("1")
    add("2")
    signals.task_claimed.connect(leave_open)
    try:
        drain(threads=1, batch_size=1)
    finally:
        signals.task_claimed.disconnect(leave_open)
    assert sorted(TaskRun.objects.values_list("biz_num", flat=True)) == ["1", "2"]
    left_open = "a receiver of task_claimed left a transaction open on 'default': what it wrote there is rolled back"
    assert left_open in caplog.text


def test_nothing_is_sent_without_receivers(monkeypatch: pytest.MonkeyPatch) -> None:
    def send(*_: Any, **__: Any) -> None:
        raise AssertionError

    for name in ("run_started", "run_finished", *NAMES):
        assert not getattr(signals, name).receivers
    handler_of(lambda task: None)
    with monkeypatch.context() as patched:
        patched.setattr(Signal, "send_robust", send)
        patched.setattr(announcing, "Counter", send)
        add()
        drain()
    assert not Task.objects.exists()
