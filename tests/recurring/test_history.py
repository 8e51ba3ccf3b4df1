"""The history says which time a run stood for, which need not be the one that its row had."""

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.store.schedules.verbs import RUN_NOW
from django_delayed_tasks.triggers import Interval
from tests.recurring.machine import MINUTE, NOON, Machine

pytestmark = pytest.mark.django_db


def minutes() -> list[float]:
    return [(when - NOON) / MINUTE for when in TaskRun.objects.order_by("id").values_list("when", flat=True)]


def test_of_several_missed_times_the_one_that_it_stood_for(machine: Machine) -> None:
    machine.add()
    machine.run_at(47)
    machine.run_at(50)
    assert minutes() == [40, 50]


def test_each_that_was_caught_up(machine: Machine) -> None:
    machine.add(Interval(minutes=10, misfire="catch_up"))
    for _ in range(3):
        machine.run_at(31)
    assert minutes() == [10, 20, 30]


def test_of_an_extra_run_the_moment_at_which_it_started(machine: Machine) -> None:
    machine.add()
    with frozen_at(NOON + 4 * MINUTE):
        [task] = api.get_tasks_by_code("recurring")
        RUN_NOW.to_seen("default", [(task.pk, task.version)])
    machine.run_at(5)
    machine.run_at(10)
    assert minutes() == [5, 10]


def test_of_each_attempt(machine: Machine) -> None:
    machine.add()
    machine.answers = [ValueError("no")]
    machine.run_at(25)
    machine.run_at(26)
    assert minutes() == [20, 20]


def test_of_one_that_was_not_started(machine: Machine) -> None:
    machine.add(Interval(minutes=10, misfire="skip", grace=60))
    machine.run_at(15)
    machine.run_at(20)
    assert minutes() == [10, 20]
