"""Hooks for failures that hang, and failures that wait for them."""

from collections.abc import Iterator
from threading import Event

import pytest

from django_delayed_tasks.executor import health
from django_delayed_tasks.executor.settling import failure_reports
from django_delayed_tasks.executor.settling.failure_reports import FailureReports
from tests.executor.parts import add, claim, claim_one, executing, handler_of, registered
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


class Hanging:
    """An ``on_failed`` that hangs for errors that begin with "h", until ``may_return`` is set."""

    def __init__(self) -> None:
        self.may_return = Event()
        self.begun: list[str] = []
        self.told: list[str] = []
        handler_of(lambda task: None, on_failed=lambda handler, task, error: self.on_failed(error))

    def on_failed(self, error: str) -> None:
        self.begun.append(error)
        if error.startswith("h"):
            assert self.may_return.wait(60)
        self.told.append(error)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    one = Hanging()
    yield one
    one.may_return.set()


def test_a_hook_that_hangs_does_not_hold_up_the_others(hanging: Hanging, caplog: pytest.LogCaptureFixture) -> None:
    failures, task = FailureReports("default"), claim_one()
    failures.start()
    for error in ("a", "h1", "b", "h2", "c"):
        failures.put(task, error)
    wait_until(lambda: hanging.begun == ["a", "h1"])
    assert failures.pass_over(longest=60) == 0
    assert failures.pass_over(longest=0) == 1
    wait_until(lambda: hanging.begun == ["a", "h1", "b", "h2"])
    assert failures.pass_over(longest=0) == 2
    wait_until(lambda: hanging.told == ["a", "b", "c"])
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert said == [f"{task}: on_failed, or a receiver of task_failed, hangs: others continue"] * 2
    hanging.may_return.set()
    wait_until(lambda: failures.pass_over(longest=0) == 0)
    failures.finish(timeout=60)
    assert sorted(hanging.told) == ["a", "b", "c", "h1", "h2"]


@pytest.mark.parametrize(
    ("errors", "left"),
    [
        ("h,b", "code a: its failure is still being reported; 0 more are not"),
        ("h,b,h", "code a, code c: their failures are still being reported; 0 more are not"),
        ("h,b,h,d", "code a, code c: their failures are still being reported; 1 more is not"),
    ],
)
def test_those_that_still_hang_at_the_end_are_named(
    hanging: Hanging, caplog: pytest.LogCaptureFixture, errors: str, left: str
) -> None:
    failures = FailureReports("default")
    failures.start()
    for num in "abcd":
        add(num)
    for task, error in zip(sorted(claim(registered()), key=str), errors.split(","), strict=False):
        failures.put(task, error)
    wait_until(lambda: hanging.begun == ["h"])
    failures.pass_over(longest=0)
    wait_until(lambda: hanging.told == ["b"] and hanging.begun == errors.split(",")[:3])
    wait_until(lambda: all(failure.error == "h" for _, failure in failures._crew.busy()))
    caplog.clear()
    failures.finish(timeout=0)
    assert [record.getMessage() for record in caplog.records] == [left]
    hanging.may_return.set()
    failures.finish(timeout=30)


def test_an_executor_in_which_too_many_hooks_hang_is_restarted(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "MAX_CALL", 0.0)
    task = claim_one()
    with executing(max_lost_threads=1, lease=0.3, heartbeat=0.1) as executor:
        for _ in range(2):
            executor.failures.put(task, "h")
        assert executor.worn_out.wait(60)
        assert executor.health.trouble() == "more than 1 thread hangs"
        hanging.may_return.set()


def test_failures_beyond_a_bound_are_logged_and_not_kept(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(failure_reports, "MAX_WAITING", 2)
    failures, task = FailureReports("default"), claim_one()
    for error in ("a", "b", "c"):
        failures.put(task, error)
    assert f"{task}: on_failed and task_failed are not called, since 2 failures wait" in caplog.text
    failures.start()
    failures.finish(timeout=60)
    assert hanging.told == ["a", "b"]
