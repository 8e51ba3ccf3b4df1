"""Django's own pool of connections (``OPTIONS["pool"]``, PostgreSQL): executors connect outside of it."""

import json
from typing import Any

import pytest

from django_delayed_tasks import Task, add_tasks
from django_delayed_tasks.models import TaskRun
from django_delayed_tasks.states import RunOutcome
from tests.processes.conftest import Start
from tests.processes.database import alive, is_settled
from tests.processes.waiting import wait_until

pytestmark = pytest.mark.per_database

TASKS = 40
THREADS = 8


def pooled(pool: Any) -> dict[str, str]:
    return {"DDT_OPTIONS": json.dumps({"pool": pool})}


@pytest.mark.parametrize("pool", [True, {"min_size": 1, "max_size": 1}, {"min_size": 0, "max_size": 2}], ids=str)
def test_an_executor_with_more_threads_than_the_pool_has_connections(starttask: Start, pool: Any) -> None:
    add_tasks([Task(biz_code="held", biz_num=str(number)) for number in range(TASKS)])
    child = starttask("--drain", "--threads", str(THREADS), environment=pooled(pool))
    assert child.exit_code() == 0
    assert TaskRun.objects.filter(outcome=RunOutcome.DONE).count() == TASKS


def test_the_executors_under_a_supervisor(starttask: Start) -> None:
    add_tasks([Task(biz_code="held", biz_num=str(number)) for number in range(TASKS)])
    child = starttask("--processes", "2", "--drain", "--threads", "8", environment=pooled({"max_size": 4}))
    assert child.exit_code() == 0
    assert TaskRun.objects.filter(outcome=RunOutcome.DONE).count() == TASKS


def test_a_web_process_with_an_executor_keeps_its_pool(start: Start) -> None:
    """It has a single connection, which is free again after each request."""
    child = start("-m", "tests.processes.pooled", environment=pooled({"min_size": 1, "max_size": 1}))
    child.say("start")
    child.wait_for("started")
    for number in ("1", "2", "3"):
        child.say(f"request {number}")
        child.wait_for(f"request {number}: pooled True, free 1 of 1")
        wait_until(lambda number=number: is_settled("held", number))  # type: ignore[misc]
    child.say("end")
    assert child.exit_code() == 0
    assert alive("inside") is None
