"""Who is notified of a task that failed."""

import threading
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError, connection

from django_delayed_tasks import Fail, Interval, Retry, TaskRun, clock, signals
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.settling.failure_reports import FailureReports, tell_failed
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql import kept_connections
from tests.executor.batches import batched
from tests.executor.parts import add, claim, claim_one, executing, handler_of, registered
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]


def test_an_on_failed_that_raises_keeps_no_other_from_hearing() -> None:
    heard: list[str] = []

    def receiver(error: str, **_: Any) -> None:
        heard.append(error)

    def on_failed(self: Any, task: Any, error: str) -> None:
        raise RuntimeError("also broken")

    handler_of(lambda task: None, on_failed=on_failed)
    signals.task_failed.connect(receiver)
    try:
        tell_failed(claim_one(), "no")
    finally:
        signals.task_failed.disconnect(receiver)
    assert heard == ["no"]


def test_an_on_failed_that_closes_its_connection_does_not_end_the_reports() -> None:
    told: list[str] = []

    def on_failed(self: Any, task: Any, error: str) -> None:
        told.append(task.biz_num)
        connection.ensure_connection()
        connection.connection.close()
        Task.objects.exists()

    handler_of(lambda task: Fail("no"), on_failed=on_failed)
    with executing(threads=1) as executor:
        for count in (1, 2):
            add(str(count))
            wait_until(lambda: len(told) == count)  # noqa: B023
        assert executor.failures._crew.threads[0].is_alive()


def test_all_are_told_before_it_ends() -> None:
    told: list[str] = []
    handler_of(lambda task: None, on_failed=lambda self, task, error: told.append(error))
    failures = FailureReports("default")
    task = claim_one()
    for number in range(20):
        failures.put(task, str(number))
    failures.start()
    failures.finish(timeout=30)
    assert told == [str(number) for number in range(20)]


@pytest.mark.parametrize(("numbers", "left"), [("ab", "1 more is not"), ("abc", "2 more are not")])
def test_what_is_left_untold_is_logged(caplog: pytest.LogCaptureFixture, numbers: str, left: str) -> None:
    is_told, go_on = Event(), Event()

    def on_failed(self: Any, task: Any, error: str) -> None:
        is_told.set()
        go_on.wait(60)

    handler_of(lambda task: None, on_failed=on_failed)
    failures = FailureReports("default")
    failures.start()
    for num in numbers:
        add(num)
    for task in sorted(claim(registered()), key=str):
        failures.put(task, "no")
    assert is_told.wait(30)
    failures.finish(timeout=0)
    go_on.set()
    failures.finish(timeout=30)
    [said] = [record.getMessage() for record in caplog.records]
    assert " a" in said
    assert said.endswith(f"its failure is still being reported; {left}")


@pytest.mark.parametrize("left", [0, 1])
def test_nothing_is_said_if_nothing_is_left(
    left: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the threads have not got to the end yet."""
    go_on = Event()
    usual = kept_connections.of_thread

    def slow(alias: str) -> Any:
        assert go_on.wait(60)
        return usual(alias)

    monkeypatch.setattr(kept_connections, "of_thread", slow)
    handler_of(lambda task: None)
    failures = FailureReports("default")
    failures.start()
    for _ in range(left):
        task = claim_one()
        failures.report(task, Settlement(task.claim, RunOutcome.FAILED, NextState.FAILED), NextState.FAILED)
    failures.finish(timeout=0)
    said = [record.getMessage() for record in caplog.records]
    assert (
        said
        == [
            "a task: its failure is still being reported; 0 more are not",
            "the log is slow: the end of 1 run was not logged",
        ][: 2 * left]
    )
    go_on.set()
    failures.finish(timeout=30)


def test_a_start_that_fails_leaves_no_thread() -> None:
    executor = Executor(ExecutorOptions(name="failing"))
    executor.recurrences.declare = always_fails  # type: ignore[method-assign]
    before = set(threading.enumerate())
    with pytest.raises(OperationalError):
        executor.start()
    assert set(threading.enumerate()) == before


def always_fails() -> None:
    raise OperationalError("gone away")


@pytest.mark.parametrize("way", ["attempts used up", "timeout"])
def test_on_failed_sees_the_task_failed(way: str) -> None:
    told, go_on = Event(), Event()
    seen: list[tuple[int, str]] = []

    def on_failed(self: Any, task: Any, error: str) -> None:
        seen.append((Task.objects.get().status, error))
        told.set()

    def handle(task: Any) -> Any:
        if way == "timeout":
            go_on.wait(60)
        return Retry(reason="never")

    handler_of(handle, max_attempts=1, timeout=0.2 if way == "timeout" else None, on_failed=on_failed)
    add()
    with executing():
        assert told.wait(30)
        go_on.set()
    assert seen[0][0] == TaskStatus.FAILED
    assert ("TaskTimeout" if way == "timeout" else "never") in seen[0][1]


class TestRecurring:
    """A recurring task is never FAILED: that the attempts of one time are used up is told all the same."""

    @pytest.mark.parametrize("raises", [True, False])
    @pytest.mark.parametrize("atomic", [False, True])
    @pytest.mark.parametrize("is_batched", [False, True])
    def test_used_up_attempts_are_told(self, is_batched: bool, atomic: bool, raises: bool) -> None:
        told: list[tuple[str, int, str]] = []

        def fail(given: Any) -> Any:
            if raises:
                raise ValueError("no more")
            return [Fail("no more") for _ in given] if is_batched else Fail("no more")

        def on_failed(self: Any, task: Any, error: str) -> None:
            told.append((task.biz_num, Task.objects.get().status, error))

        make = batched if is_batched else handler_of
        make(fail, atomic=atomic, max_attempts=1, on_failed=on_failed)
        add(trigger=Interval(hours=1), when=timedelta())
        with executing():
            wait_until(lambda: told)
        assert [one[:2] for one in told] == [("1", TaskStatus.PENDING)]
        assert "no more" in told[0][2]
        assert Task.objects.get().when > clock.host_now() + timedelta(minutes=30)

    @pytest.mark.parametrize("atomic", [False, True])
    def test_what_is_no_failure_is_not_told(self, atomic: bool) -> None:
        told: list[str] = []

        def handle(task: Any) -> Any:
            return Retry(after=timedelta()) if task.attempts == 1 else None

        handler_of(handle, atomic=atomic, max_attempts=2, on_failed=lambda self, task, error: told.append(error))
        add(trigger=Interval(hours=1), when=timedelta())
        with executing():
            wait_until(lambda: TaskRun.objects.filter(outcome=RunOutcome.DONE).exists())
        assert told == []
