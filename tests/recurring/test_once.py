"""``once=True``: an identity that has been done is not done again."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_delayed_tasks import Task, add_task, add_tasks, api
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.exceptions import InvalidTask, TaskExists
from django_delayed_tasks.executor.membership.retention import Way
from django_delayed_tasks.models import Success
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import AddAction, IfExistsName, NextState
from django_delayed_tasks.store.records.purging import ALL, SUCCESSES
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.triggers import Interval
from tests.executor.parts import claim
from tests.executor.runs import run_one
from tests.recurring.machine import MINUTE, NOON, Machine

pytestmark = pytest.mark.django_db


def add(num: str = "1", when: timedelta = timedelta(), **options: Any) -> AddResult:
    with frozen_at(NOON):
        return add_task(Task(biz_code="recurring", biz_num=num, when=when), once=True, **options)


def test_what_was_done_is_filtered(machine: Machine) -> None:
    assert add().action is AddAction.CREATED
    assert machine.run_at(0) is NextState.GONE
    assert add() == (None, AddAction.FILTERED)
    assert not TaskRow.objects.exists()
    assert add("2").action is AddAction.CREATED


def test_until_it_is_done_it_is_added_as_ever(machine: Machine) -> None:
    add()
    assert add().action is AddAction.REPLACED
    machine.answers = [ValueError("no")]
    assert machine.run_at(0) is NextState.RETRY
    assert add().action is AddAction.REPLACED
    assert not Success.objects.exists()


def test_only_success_counts(machine: Machine) -> None:
    machine.handler.max_attempts = 1
    machine.answers = [ValueError("no")]
    add()
    assert machine.run_at(0) is NextState.FAILED
    assert add().action is AddAction.REPLACED
    assert api.cancel_task("recurring", "1") == "cancelled"
    assert add().action is AddAction.CREATED


def test_tasks_that_were_added_without_it_are_not_remembered(machine: Machine) -> None:
    machine.add(trigger=None)
    machine.run_at(0)
    assert not Success.objects.exists()


def test_forget(machine: Machine) -> None:
    add()
    machine.run_at(0)
    assert api.forget("recurring", "1")
    assert not api.forget("recurring", "1")
    assert add().action is AddAction.CREATED


def test_an_add_while_it_runs_is_dropped_if_it_succeeds(machine: Machine) -> None:
    add()
    with frozen_at(NOON):
        [task] = claim(machine.executor)
    assert add(when=MINUTE).action is AddAction.DEFERRED
    settlement = run_one(task, machine.handler, machine.clock)
    assert settlement
    assert settle("default", [settlement]).became == {task.claim: NextState.GONE}
    assert not TaskRow.objects.exists()
    assert add().action is AddAction.FILTERED


def test_an_add_without_once_while_it_runs_is_not(machine: Machine) -> None:
    add()
    with frozen_at(NOON):
        [task] = claim(machine.executor)
    machine.add(trigger=None, when=NOON + MINUTE)
    settlement = run_one(task, machine.handler, machine.clock)
    assert settlement
    assert settle("default", [settlement]).became == {task.claim: NextState.AGAIN}


def test_in_bulk(machine: Machine) -> None:
    add()
    machine.run_at(0)
    tasks = [Task(biz_code="recurring", biz_num=num) for num in ("1", "2", "3")]
    assert add_tasks(tasks, once=True) == 2
    assert set(TaskRow.objects.values_list("biz_num", "once")) == {("2", True), ("3", True)}
    assert add_tasks(tasks[:1], once=True) == 0


@pytest.mark.parametrize("mode", ["keep", "raise", "earliest", "latest"])
def test_with_every_mode(machine: Machine, mode: IfExistsName) -> None:
    assert add(if_exists=mode).action is AddAction.CREATED
    if mode == "raise":
        with pytest.raises(TaskExists):
            add(if_exists=mode)
    else:
        assert add(if_exists=mode).action is AddAction.KEPT
    machine.run_at(0)
    assert add(if_exists=mode).action is AddAction.FILTERED


def test_a_caller_that_rolls_back_has_written_nothing(machine: Machine) -> None:
    with transaction.atomic():
        add()
        transaction.set_rollback(True)
    assert not TaskRow.objects.exists()


@pytest.mark.parametrize("once", [1, "yes", None])
def test_bad_once(machine: Machine, once: Any) -> None:
    with pytest.raises(InvalidTask, match="once="):
        add_task(Task(biz_code="recurring", biz_num="1"), once=once)


def test_once_and_recurring_exclude_each_other(machine: Machine) -> None:
    with pytest.raises(InvalidTask, match="recurring task"):
        add_task(Task(biz_code="recurring", biz_num="1", trigger=Interval(hours=1)), once=True)


def test_old_successes_are_forgotten_in_batches(machine: Machine) -> None:
    for number in range(5):
        Success.objects.create(biz_code="c", biz_num=str(number), succeeded_at=NOON + number * MINUTE)
    way = Way("default", timedelta(hours=1), ALL, SUCCESSES)
    with frozen_at(NOON + 63 * MINUTE):
        assert [way.purge(2), Success.objects.count()] == [True, 3]
        assert [way.purge(2), Success.objects.count()] == [False, 2]
    assert set(Success.objects.values_list("biz_num", flat=True)) == {"3", "4"}
