"""``jitter``: each run begins by chance up to so long after its time, the first one too; ``when`` stays the time."""

import random
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from django_delayed_tasks import Done, Reschedule, Task, add_task, api
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.executor.membership.recurrences import Recurrences
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import IfExists, NextState, RunOutcome
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.triggers import Cron, Interval, Trigger
from tests.executor.parts import claim, handler_of
from tests.recurring.machine import MINUTE, NOON, Machine

pytestmark = pytest.mark.django_db

FIVE = Interval(minutes=10, jitter=300)


@pytest.fixture(params=[0.0, 0.5, 0.999])
def chance(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The random number between 0 and 1."""
    monkeypatch.setattr(random, "random", lambda: request.param)
    return request.param


def standing() -> tuple[float, float]:
    """The minute that the task waits for, and how many minutes later it may be claimed."""
    task = TaskRow.objects.get()
    return (task.when - NOON) / MINUTE, (task.claim_at - task.when) / MINUTE


def beyond(minute: float, chance: float) -> tuple[float, Any]:
    return minute, pytest.approx(5 * chance)


def task() -> Task:
    return Task(biz_code="recurring", biz_num="1", trigger=FIVE)


ADDS: dict[str, Callable[[], object]] = {
    **{mode.value: partial(lambda mode: add_task(task(), if_exists=mode), mode) for mode in IfExists},
    "in bulk": lambda: api.add_tasks([task()]),
}


@pytest.mark.parametrize("add", ADDS.values(), ids=ADDS)
def test_the_first_time_of_a_new_task(machine: Machine, chance: float, add: Callable[[], object]) -> None:
    with frozen_at(NOON):
        add()
    assert standing() == beyond(10, chance)


@pytest.mark.parametrize("name", ["replace", "earliest", "in bulk"])
def test_of_one_that_is_added_again(machine: Machine, chance: float, name: str) -> None:
    machine.add(Interval(minutes=30))
    with frozen_at(NOON):
        ADDS[name]()
    assert standing() == beyond(10, chance)


def test_a_time_that_the_caller_names_is_exact(machine: Machine, chance: float) -> None:
    machine.add(FIVE, when=NOON + 3 * MINUTE)
    assert standing() == (3, 0)
    assert api.reschedule_task("recurring", "1", NOON + 4 * MINUTE)
    assert TaskRow.objects.get().when == NOON + 4 * MINUTE


def test_every_further_time(machine: Machine, chance: float) -> None:
    machine.add(FIVE)
    for minute in (10, 20, 30):
        assert standing() == beyond(minute, chance)
        assert machine.run_at(minute + 5 * chance - 0.001) is None
        assert machine.run_at(minute + 5) is NextState.RECUR
    assert [when for when, _ in machine.seen] == [10, 20, 30]


def test_whatever_ends_the_run(machine: Machine, chance: float) -> None:
    machine.handler.max_attempts = 1
    machine.answers = [Done(), ValueError("no"), Reschedule(NOON + 33 * MINUTE)]
    machine.add(FIVE)
    for minute in (15, 25):
        assert machine.run_at(minute) is NextState.RECUR
        assert standing() == beyond(minute + 5, chance)
    assert machine.run_at(35) is NextState.AGAIN
    named: Any = (33, pytest.approx(2))
    assert standing() == named, "a time that the run names is exact: here it is claimable at once"
    with frozen_at(NOON + 36 * MINUTE):
        claim(machine.executor + 1000)
        assert set(reap("default", max_rescues=0).values()) == {NextState.RECUR}
    assert standing() == beyond(43, chance)


def test_when_it_is_resumed(machine: Machine, chance: float) -> None:
    machine.add(FIVE)
    for minute, following in ((4, 10), (24, 30)):
        api.pause_task("recurring", "1")
        with frozen_at(NOON + minute * MINUTE):
            assert api.resume_task("recurring", "1")
        assert standing() == beyond(following, chance)


def test_of_a_handlers_trigger(chance: float) -> None:
    with registry.preserved():
        registry.clear()
        for minute, trigger in ((0, FIVE), (2, Interval(minutes=20, jitter=300))):
            registry.clear()
            handler_of(lambda task: None, code="nightly", trigger=trigger)
            with frozen_at(NOON + minute * MINUTE):
                Recurrences("default").declare()
            assert standing() == beyond(minute + trigger.minutes, chance)


def test_chance_is_asked_for_each_task(machine: Machine) -> None:
    with frozen_at(NOON):
        api.add_tasks(Task(biz_code="recurring", biz_num=str(n), trigger=FIVE) for n in range(300))
    waits = [task.claim_at - task.when for task in TaskRow.objects.all()]
    assert min(waits) >= timedelta()
    assert max(waits) <= 5 * MINUTE
    assert len(set(waits)) > 290
    # The probability that one of the five minutes is empty by chance is 1 in 10 to the 28.
    assert {wait // MINUTE for wait in waits} >= {0, 1, 2, 3, 4}


@pytest.mark.parametrize("how", [{"misfire": "skip"}, {"misfire": "skip", "grace": 0}, {"grace": 10}])
def test_it_is_not_lateness_of_the_trigger(machine: Machine, chance: float, how: dict[str, Any]) -> None:
    trigger: Trigger = Cron("*/10 * * * *", jitter=300, **how)
    machine.add(trigger)
    assert machine.run_at(10 + 5 * chance) is NextState.RECUR
    assert machine.seen == [(10, None)]


def test_nor_of_the_handler(machine: Machine, chance: float) -> None:
    machine.handler.max_lateness = 30
    machine.add(FIVE)
    assert machine.run_at(10 + 5 * chance) is NextState.RECUR
    assert machine.run_at(25.6) is NextState.RECUR
    assert machine.seen == [(10, None)]
    assert [run.outcome for run in api.get_runs()] == [RunOutcome.EXPIRED, RunOutcome.DONE]
