"""The executor knows the database's clock from a reading, which is as old as the way of its answer."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import NextState
from django_delayed_tasks.store.schedules.verbs import RUN_NOW
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.triggers import Cron, Interval, Trigger
from tests.executor.parts import claim
from tests.executor.runs import run_one
from tests.recurring.machine import EVERY_TEN, MINUTE, NOON, Machine

pytestmark = pytest.mark.django_db

LAG = timedelta(milliseconds=150)
MISFIRES = ("coalesce", "skip", "catch_up")


def run_at(machine: Machine, minute: float, lag: timedelta = LAG) -> NextState:
    """Claimed at that minute by the database's clock, run by one that is slow by so much."""
    with frozen_at(NOON + minute * MINUTE):
        [task] = claim(machine.executor)
    machine.clock.moment, machine.takes = NOON + minute * MINUTE - lag, timedelta()
    settlement = run_one(task, machine.handler, machine.clock)
    assert settlement
    with frozen_at(NOON + minute * MINUTE):
        return settle("default", [settlement]).became[task.claim]


@pytest.mark.parametrize("trigger", [*(Interval(minutes=10, misfire=how) for how in MISFIRES), Cron("*/10 * * * *")])
def test_a_slow_one_does_not_fire_twice(machine: Machine, trigger: Trigger) -> None:
    machine.add(trigger)
    assert run_at(machine, 10) is NextState.RECUR
    assert (machine.seen, machine.next) == ([(10, None)], 20)
    run_at(machine, 20)
    assert (machine.seen, machine.next) == ([(10, None), (20, None)], 30)


def test_nor_a_retry(machine: Machine) -> None:
    machine.answers = [ValueError("no")]
    machine.add()
    assert run_at(machine, 10) is NextState.RETRY
    run_at(machine, 11, lag=2 * MINUTE)
    assert (machine.seen, machine.next) == ([(10, None), (10, None)], 20)


@pytest.mark.parametrize("lag", [-LAG, LAG])
def test_run_now_just_before_its_time_is_one_more_all_the_same(machine: Machine, lag: timedelta) -> None:
    machine.add()
    with frozen_at(NOON + 9.999 * MINUTE):
        RUN_NOW.to_seen("default", [TaskRow.objects.values_list("id", "version").get()])
    run_at(machine, 9.999, lag)
    extra: Any = [(pytest.approx(9.999 - lag / MINUTE), None)]
    assert machine.seen == extra
    assert machine.next == 10
    run_at(machine, 10)
    assert (machine.seen[1:], machine.next) == ([(10, None)], 20)


def test_one_more_that_is_rescued_is_still_one_more(machine: Machine) -> None:
    machine.add(EVERY_TEN)
    with frozen_at(NOON + 4 * MINUTE):
        RUN_NOW.to_seen("default", [TaskRow.objects.values_list("id", "version").get()])
        [task] = claim(machine.executor)
    machine.answers = [ValueError("no")]
    machine.clock.moment = NOON + 4 * MINUTE
    settlement = run_one(task, machine.handler, machine.clock)
    assert settlement
    with frozen_at(machine.clock.moment):
        settle("default", [settlement])
    assert run_at(machine, 5, timedelta()) is NextState.RECUR
    assert ([when for when, _ in machine.seen], machine.next) == ([4, 5], 10)
