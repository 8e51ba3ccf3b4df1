"""*Run now* and a handler's ``max_lateness``: a person's wish is not too late."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import Interval
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.schedules.verbs import RUN_NOW
from tests.executor.parts import add, drain, handler_of
from tests.recurring.machine import MINUTE, NOON

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]

HOUR = timedelta(hours=1)


def outcomes() -> list[RunOutcome]:
    return [RunOutcome(run.outcome) for run in TaskRun.objects.order_by("id")]


@pytest.mark.parametrize("fields", [{}, {"trigger": Interval(hours=12, misfire="skip")}], ids=["once", "recurring"])
def test_a_task_that_waits_for_its_retry(fields: dict[str, Any]) -> None:
    raised = iter([ValueError])

    def fail_once(task: Any) -> None:
        for error in raised:
            raise error

    handler_of(fail_once, max_attempts=3, max_lateness=60, backoff=lambda self, attempt: 2 * HOUR)
    with frozen_at(NOON):
        add(when=NOON, **fields)
        drain()
    with frozen_at(NOON + HOUR):
        RUN_NOW.to_each(Task.objects.all())
        drain()
    assert outcomes() == [RunOutcome.RETRIED, RunOutcome.DONE]
    assert {run.when for run in TaskRun.objects.all()} == {NOON}


def test_an_overdue_task() -> None:
    handler_of(lambda task: None, max_lateness=60)
    with frozen_at(NOON):
        add(when=NOON)
    with frozen_at(NOON + HOUR):
        RUN_NOW.to_each(Task.objects.all())
        drain()
    assert outcomes() == [RunOutcome.DONE]


def test_it_is_judged_by_its_own_time_afterwards() -> None:
    handler_of(lambda task: None, max_lateness=60)
    with frozen_at(NOON):
        add(when=NOON)
        RUN_NOW.to_each(Task.objects.all())
    with frozen_at(NOON + 2 * MINUTE):
        drain()
    assert outcomes() == [RunOutcome.EXPIRED]
