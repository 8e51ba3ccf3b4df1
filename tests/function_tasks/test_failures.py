"""Attempts that fail, are lost, take too long, or never start, in results and signals."""

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_delayed_tasks import CancelResult
from django_delayed_tasks.exceptions import ClaimLost, TaskCancelled, TaskExpired, TaskTimeout
from django_delayed_tasks.function_tasks.families import family_of
from django_delayed_tasks.handlers import find
from django_delayed_tasks.handlers.functions import code_of_function
from django_delayed_tasks.handlers.registry import withdraw
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.schedules.verbs import cancel
from django_delayed_tasks.store.settling.reap import reap
from tests.deaths import crash
from tests.executor.parts import claim, drain, executing, registered
from tests.function_tasks import functions
from tests.function_tasks.framework import (
    TaskResultStatus,
    default_task_backend,
    task_enqueued,
    task_finished,
    task_started,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
backend: Any = default_task_backend


@pytest.fixture
def heard() -> Any:
    """The signals that were sent: name, status, attempts, and the class of the exception that was being handled."""
    import sys

    sent: list[Any] = []
    receivers = {}
    for name, signal in (("enqueued", task_enqueued), ("started", task_started), ("finished", task_finished)):

        def receive(sender: Any, task_result: Any, name: str = name, **_: Any) -> None:
            assert sender is type(task_result.task.get_backend())
            sent.append((name, str(task_result.status), task_result.attempts, sys.exc_info()[0]))

        signal.connect(receive)
        receivers[signal] = receive
    yield sent
    for signal, receive in receivers.items():
        signal.disconnect(receive)


def test_attempts_errors_and_signals(heard: list[Any]) -> None:
    result: Any = functions.fail_until.enqueue(3)
    drain()
    result.refresh()
    assert result.return_value == 3
    assert result.attempts == 3
    assert [error.exception_class for error in result.errors] == [ValueError, ValueError]
    assert [error.traceback.splitlines()[-1] for error in result.errors] == [
        "ValueError: attempt 1",
        "ValueError: attempt 2",
    ]
    assert result.started_at < result.last_attempted_at < result.finished_at
    assert functions.seen == [(ValueError, 1, 1), (ValueError, 2, 2)]
    assert heard == [
        ("enqueued", "READY", 0, None),
        *(("started", "RUNNING", attempt, None) for attempt in (1, 2, 3)),
        ("finished", "SUCCESSFUL", 3, None),
    ]


def test_the_last_attempt_that_fails(heard: list[Any]) -> None:
    result: Any = functions.fail_until.enqueue(9)
    drain()
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.FAILED, 3, 3)
    assert heard[-1] == ("finished", "FAILED", 3, ValueError)
    assert len(heard) == 5


def test_a_backoff_of_none_is_the_end(heard: list[Any]) -> None:
    result: Any = functions.fail_until.enqueue(9, "KeyError")
    drain()
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    assert heard[-1] == ("finished", "FAILED", 1, KeyError)


def test_waiting_for_a_retry_is_ready() -> None:
    result: Any = functions.fail_until.enqueue(3)
    registered_executor = registered()
    [task] = claim(registered_executor)
    result.refresh()
    assert (result.status, result.attempts, result.worker_ids) == (
        TaskResultStatus.RUNNING,
        1,
        [str(registered_executor)],
    )
    assert result.started_at == result.last_attempted_at is not None
    from django_delayed_tasks.clock import DatabaseClock
    from django_delayed_tasks.handlers import find
    from django_delayed_tasks.store.settling.settle import settle
    from tests.executor.runs import run_one

    handler = find(task.biz_code)
    assert handler
    settlement = run_one(task, handler, DatabaseClock())
    assert settlement
    settle("default", [settlement])
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (TaskResultStatus.READY, 1, 1)
    assert not result.is_finished


def test_a_run_that_takes_too_long(heard: list[Any]) -> None:
    result: Any = functions.hang.enqueue()
    with executing():
        wait_until(lambda: functions.hang.get_result(result.id).is_finished)
        wait_until(lambda: len(heard) == 3)
        functions.may_end.set()
    result.refresh()
    assert [error.exception_class for error in result.errors] == [TaskTimeout]
    assert len(heard) == 3
    assert heard[-1] == ("finished", "FAILED", 1, TaskTimeout)


def test_a_run_whose_executor_died_is_an_attempt() -> None:
    result: Any = functions.add_up.enqueue(1)
    dead = registered("dead")
    claim(dead)
    crash(dead)
    reap("default", max_rescues=1)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 1)
    drain()
    result.refresh()
    assert (result.status, result.attempts, result.worker_ids[0]) == (TaskResultStatus.SUCCESSFUL, 2, str(dead))
    assert [error.exception_class for error in result.errors] == [ClaimLost]


def test_a_run_that_was_cut_off_by_a_stop_is_no_attempt() -> None:
    result: Any = functions.add_up.enqueue(1)
    for name in ("web", "web-2"):
        stopped = registered(name)
        claim(stopped)
        executors.retire("default", stopped)
        reap("default", max_rescues=0)
        result.refresh()
        assert (result.status, result.attempts, result.errors) == (TaskResultStatus.READY, 0, [])
    assert TaskRun.objects.filter(outcome=RunOutcome.LOST).count() == 2
    drain()
    result.refresh()
    assert (result.status, result.attempts, len(result.worker_ids)) == (TaskResultStatus.SUCCESSFUL, 1, 1)
    assert result.errors == []


def test_one_that_was_cancelled_meanwhile_has_been_cancelled() -> None:
    result: Any = functions.add_up.enqueue(1)
    stopped = registered("web")
    [task] = claim(stopped)
    cancel("default", task.biz_code, task.biz_num)
    executors.retire("default", stopped)
    reap("default", max_rescues=0)
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert [error.exception_class for error in result.errors] == [TaskCancelled]


def test_rescues_that_are_used_up_are_announced_where_the_function_was_not_imported(heard: list[Any]) -> None:
    add_up: Any = functions.add_up
    add_up.enqueue(1)
    dead = registered("dead")
    claim(dead)
    crash(dead)
    known = find(code_of_function(add_up.module_path))
    assert known
    withdraw(known)
    with executing(max_rescues=0):
        wait_until(lambda: len(heard) > 1)
    assert heard == [("enqueued", "READY", 0, None), ("finished", "FAILED", 1, ClaimLost)]


def test_rescues_that_are_used_up() -> None:
    result: Any = functions.add_up.enqueue(1)
    dead = registered("dead")
    claim(dead)
    crash(dead)
    reap("default", max_rescues=0)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    assert [error.exception_class for error in result.errors] == [ClaimLost]


def test_a_waiting_task_that_is_cancelled() -> None:
    result: Any = functions.add_up.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1, start=2)
    assert backend.cancel(result.id) == CancelResult.CANCELLED
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 0)
    assert [error.exception_class for error in result.errors] == [TaskCancelled]
    assert functions.add_up.get_result(result.id) == result
    assert (result.args, result.kwargs) == ([1], {"start": 2})
    assert backend.cancel(result.id) == CancelResult.MISSING


def test_what_has_failed_cannot_be_cancelled() -> None:
    result: Any = functions.fail.enqueue("no")
    drain()
    failed = functions.fail.get_result(result.id)
    assert backend.cancel(result.id) == CancelResult.MISSING
    assert functions.fail.get_result(result.id) == failed


def test_what_has_failed_keeps_its_error_for_as_long_as_its_row() -> None:
    """The runs are deleted from the history after a time, and the row waits for a decision."""
    result: Any = functions.fail.enqueue("no")
    drain()
    finished = functions.fail.get_result(result.id).finished_at
    TaskRun.objects.all().delete()
    result.refresh()
    assert (result.status, result.attempts, result.worker_ids) == (TaskResultStatus.FAILED, 1, [""])
    assert "ValueError: no" in result.errors[0].traceback
    assert abs(result.finished_at - finished) < timedelta(seconds=5)


def test_a_running_task_that_is_cancelled_may_still_succeed() -> None:
    result: Any = functions.wait_until_told.enqueue()
    with executing():
        assert functions.started.wait(10)
        assert backend.cancel(result.id) == CancelResult.STOPPING
        assert functions.wait_until_told.get_result(result.id).status == TaskResultStatus.RUNNING
        functions.may_end.set()
        assert backend.wait(result.id, 10).return_value == "told"


def test_what_has_expired_never_starts() -> None:
    add_up: Any = functions.add_up
    expired = add_up.using(expires=timezone.now() - timedelta(seconds=1)).enqueue(1)
    kept = functions.soon.enqueue()
    assert Task.objects.latest("id").expires_at
    drain()
    result = functions.add_up.get_result(expired.id)
    assert (result.status, result.attempts, result.args) == (TaskResultStatus.FAILED, 0, [1])
    assert [error.exception_class for error in result.errors] == [TaskExpired]
    assert functions.soon.get_result(kept.id).status == TaskResultStatus.SUCCESSFUL


def test_an_atomic_run_that_fails_leaves_nothing() -> None:
    from django.contrib.auth.models import Group

    result: Any = functions.write_then_fail.enqueue("staff")
    drain()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert not Group.objects.filter(name="staff").exists()


def test_an_atomic_run_that_succeeds_has_a_result() -> None:
    from django.contrib.auth.models import Group

    result: Any = functions.write.enqueue("clerks")
    drain()
    result.refresh()
    assert (result.return_value, result.args) == ("clerks", ["clerks"])
    assert Group.objects.filter(name="clerks").delete()[0]


def test_django_logs_what_an_executor_does(caplog: pytest.LogCaptureFixture) -> None:
    name = family_of(functions.fail).root
    with caplog.at_level(logging.DEBUG, logger=name):
        result: Any = functions.fail.enqueue("no")
        drain()
    lines = [record for record in caplog.records if record.name == name]
    assert [record.levelname for record in lines] == ["DEBUG", "INFO", "ERROR"]
    assert result.id in lines[-1].getMessage()
    assert lines[-1].exc_info
    assert lines[-1].exc_info[0] is ValueError
