"""An executor with threads keeps a limit, and runs each task once."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from django_delayed_tasks import Task as DelayedTask
from django_delayed_tasks import api
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from tests.executor.limits.parts import add_some
from tests.executor.parts import executing, handler_of
from tests.waiting import wait_until


def test_a_whole_executor(transactional_db: None) -> None:
    """Never more than the slots, and each task once, in their order."""
    seen: list[str] = []
    most: list[int] = []

    def handle(task: Any) -> None:
        seen.append(task.biz_num)
        most.append(Task.objects.filter(status=TaskStatus.RUNNING).count())

    handler_of(handle, max_concurrent=2)
    add_some(60)
    with executing(threads=4):
        wait_until(lambda: len(seen) == 60)
        wait_until(lambda: not Task.objects.exists())
    assert sorted(seen, key=int) == [str(number) for number in range(60)]
    assert max(most) <= 2


FLOW = 1_500


@pytest.mark.parametrize("priority", [0, 10])
@pytest.mark.parametrize("limited", ["one", "flow"])
def test_beside_a_flow_that_keeps_all_threads_busy(transactional_db: None, priority: int, limited: str) -> None:
    """A task does not wait until the flow ends; neither one with limits, nor one beside a flow that has limits."""
    left: list[int] = []

    def handle(code: str, run: Callable[[Any], None]) -> None:
        handler_of(run, code, **({"max_concurrent": 100} if code == limited else {}))

    handle("flow", lambda task: time.sleep(0.005))
    handle("one", lambda task: left.append(Task.objects.filter(biz_code="flow").count()))
    api.add_tasks(DelayedTask(biz_code="flow", biz_num=str(number)) for number in range(FLOW))
    with executing(threads=2):
        wait_until(lambda: Task.objects.count() < FLOW - 100)
        add_some(1, "one", priority=priority)
        wait_until(lambda: len(left) == 1)
    assert left[0] > FLOW // 2
