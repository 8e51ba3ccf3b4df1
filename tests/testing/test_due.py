"""``run_due_tasks``: the pipeline of an executor, in the transaction of a test."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone, translation

from django_delayed_tasks import (
    Task,
    TaskException,
    get_runs,
    get_task_handlers,
    pause_queue,
)
from django_delayed_tasks.handlers.registry import withdraw
from django_delayed_tasks.models import Executor
from django_delayed_tasks.testing import run_due_tasks, run_until
from tests.executor.parts import add, claim, handler_of, registered
from tests.testing.parts import DONE, HOUR, numbers

pytestmark = [pytest.mark.django_db, pytest.mark.per_database]


def test_what_is_due_runs_in_this_transaction() -> None:
    seen: list[Any] = []
    handler_of(lambda task: seen.append((task.biz_num, connection.in_atomic_block)))
    add("due")
    add("later", when=HOUR)

    runs = run_due_tasks()

    assert seen == [("due", True)]
    assert runs.outcomes == [("code", "due", DONE)]
    assert list(Task.objects.values_list("biz_num", flat=True)) == ["later"]
    assert get_runs("code", "due").get().outcome == DONE


def test_nothing_due() -> None:
    handler_of(lambda task: None)
    assert run_due_tasks() == []
    assert repr(run_due_tasks()) == "<nothing ran>"


def test_nothing_ran_although_tasks_are_due() -> None:
    """What each waits for is said where a test fails, not only in the log."""
    handler_of(lambda task: None, "geocode", pool="api-keys")
    handler_of(lambda task: None)
    add("1", "geocode")
    assert repr(run_due_tasks()) == "<nothing ran; 1 due task waits: geocode x1, pool 'api-keys'>"
    add("1", "geocode", queue="stopped")
    add("2", queue="stopped")
    handler_of(lambda task: None, "renamed")
    add("3", "renamed")
    withdraw(get_task_handlers()["renamed"])
    pause_queue("stopped")
    assert repr(run_due_tasks()) == (
        "<nothing ran; 3 due tasks wait: code x1, queue 'stopped' is paused;"
        " geocode x1, queue 'stopped' is paused; renamed x1, no handler>"
    )
    assert repr(run_due_tasks()) == repr(run_until(timedelta(0)))


def test_runs_are_a_sequence() -> None:
    handler_of(lambda task: None)
    add("1")
    add("2")
    runs = run_due_tasks()
    assert runs == list(runs) == [*runs[:1], *runs[1:]]
    assert runs != runs[:1]
    assert runs != "text"
    assert runs.of("code", 2) == runs[1:]
    assert runs.of("other") == []
    assert runs.codes == ["code", "code"]


def test_no_executor_is_left() -> None:
    handler_of(lambda task: None)
    add()
    run_due_tasks()
    assert not Executor.objects.filter(alive=True).exists()


def test_the_order_is_that_of_priorities_and_times() -> None:
    def handle(task: Any) -> None:
        if task.biz_num == "second":
            add("urgent", priority=9)

    handler_of(handle)
    now = timezone.now()
    for number, seconds, priority in (("last", 1, -1), ("third", 1, 0), ("second", 2, 0), ("first", 0, 5)):
        add(number, when=now - timedelta(seconds=seconds), priority=priority)
        Task._base_manager.filter(biz_num=number).update(claim_at=now - timedelta(seconds=seconds))

    assert numbers(run_due_tasks()) == ["first", "second", "urgent", "third", "last"]


def test_what_a_run_adds_runs_too() -> None:
    def handle(task: Any) -> None:
        if task.biz_num != "3":
            add(str(int(task.biz_num) + 1))

    handler_of(handle)
    add("1")
    assert numbers(run_due_tasks()) == ["1", "2", "3"]


def test_a_paused_queue_does_not_run() -> None:
    handler_of(lambda task: None)
    add()
    pause_queue("default")
    assert run_due_tasks() == []


def test_a_task_without_a_handler_stays() -> None:
    handler_of(lambda task: None)
    handler_of(lambda task: None, "old")
    add(code="old")
    add()
    withdraw(get_task_handlers()["old"])
    assert run_due_tasks().codes == ["code"]
    assert Task.objects.get().biz_code == "old"


def test_a_run_finds_a_clean_context() -> None:
    seen: list[str] = []
    handler_of(lambda task: seen.append(translation.get_language()))
    add()
    with translation.override("de"):
        run_due_tasks()
    assert seen == ["en-us"]


def test_an_endless_task_is_reported() -> None:
    handler_of(lambda task: timedelta())
    add()
    with pytest.raises(TaskException, match="no end of due tasks after 20 runs: 21 of code"):
        run_due_tasks(max_runs=20)
    assert not Executor.objects.filter(alive=True).exists()


def test_a_transaction_of_the_test_is_refused() -> None:
    handler_of(lambda task: None)
    with transaction.atomic(), pytest.raises(TaskException, match="inside a transaction"):
        run_due_tasks()


def test_a_run_runs_no_tasks() -> None:
    handler_of(lambda task: run_due_tasks(), max_attempts=1)
    add()
    [run] = run_due_tasks()
    assert "within a run" in run.reason


def test_the_end_of_a_test_is_not_swallowed() -> None:
    handler_of(lambda task: pytest.fail("this handler is not to be called"))
    add()
    with pytest.raises(pytest.fail.Exception, match="not to be called"):
        run_due_tasks()


def test_tasks_of_a_dead_executor_are_rescued() -> None:
    handler_of(lambda task: None)
    add()
    executor = registered("dead")
    claim(executor)
    Executor.objects.filter(pk=executor).update(alive=None)
    [run] = run_due_tasks()
    assert (run.outcome, run.attempt) == (DONE, 1)


@pytest.mark.django_db(transaction=True)
def test_it_works_without_a_transaction_too() -> None:
    seen: list[bool] = []
    handler_of(lambda task: seen.append(connection.in_atomic_block))
    handler_of(lambda task: seen.append(connection.in_atomic_block), "atomic", atomic=True)
    add()
    add(code="atomic")
    assert sorted(run_due_tasks().outcomes) == [("atomic", "1", DONE), ("code", "1", DONE)]
    assert sorted(seen) == [False, True]
