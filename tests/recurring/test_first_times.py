"""The first time of each task that is added with a trigger, alone or among others."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import Task, add_tasks
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.models import Task as TaskRow
from tests.recurring.machine import EVERY_TEN, MINUTE, NOON

pytestmark = pytest.mark.usefixtures("db", "machine")


def waits_for() -> dict[str, tuple[timedelta, timedelta]]:
    """Return how long after noon the time of each is, and when it may be claimed."""
    return {task.biz_num: (task.when - NOON, task.claim_at - NOON) for task in TaskRow.objects.all()}


TASKS: dict[str, dict[str, Any]] = {
    "recurring": {"trigger": EVERY_TEN},
    "recurring from then on": {"trigger": EVERY_TEN, "when": NOON + 3 * MINUTE},
    "plain": {},
    "plain, later": {"when": NOON + 5 * MINUTE},
}


@pytest.mark.parametrize("order", [list(TASKS), list(TASKS)[::-1]], ids=["first", "last"])
def test_in_bulk_each_has_its_own(order: list[str]) -> None:
    with frozen_at(NOON):
        assert add_tasks([Task(biz_code="recurring", biz_num=num, **TASKS[num]) for num in order]) == len(TASKS)
    assert waits_for() == {
        "recurring": (10 * MINUTE,) * 2,
        "recurring from then on": (3 * MINUTE,) * 2,
        "plain": (timedelta(),) * 2,
        "plain, later": (5 * MINUTE,) * 2,
    }


def test_in_bulk_with_jitter() -> None:
    """None is claimed before its time, nor is its time another."""
    jittered = type(EVERY_TEN)(minutes=10, jitter=60)
    with frozen_at(NOON):
        add_tasks([Task(biz_code="recurring", biz_num=str(number), trigger=jittered) for number in range(20)])
    found = waits_for().values()
    assert {when for when, _ in found} == {10 * MINUTE}
    assert all(10 * MINUTE <= claim_at <= 11 * MINUTE for _, claim_at in found)
    assert len({claim_at for _, claim_at in found}) > 1
