"""A task to be done once that is rescheduled while it runs: it runs again, since that call came last."""

import threading
from typing import Any

import pytest

from django_delayed_tasks import Retry, Task, add_task, api
from django_delayed_tasks.handlers import TaskHandler, register_task_handler, registry
from django_delayed_tasks.models import Success, TaskRun
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import AddAction, RunOutcome
from tests.executor.parts import executing
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

NUMS = ("1", "2")
WAYS = ["plain", "atomic", "batch", "atomic batch"]


class Rescheduled:
    """A handler; another caller reschedules each task during its first run."""

    def __init__(self, way: str, first: Any = None) -> None:
        self.first = first
        self.lock = threading.Lock()
        self.seen: list[str] = []
        members: dict[str, Any] = {"biz_code": "once", "atomic": "atomic" in way, "backoff": lambda _, attempt: 0}
        if "batch" in way:
            members["handle_batch"] = lambda _, tasks: [self.handle(task) for task in tasks].clear()
        else:
            members["handle"] = lambda _, task: self.handle(task)
        register_task_handler(type("Once", (TaskHandler,), members)())

    def handle(self, task: Any) -> Any:
        with self.lock:
            self.seen.append(task.biz_num)
            is_first = self.seen.count(task.biz_num) == 1
        if is_first:
            assert api.reschedule_task("once", task.biz_num, None)
            return self.first
        return None


@pytest.fixture(autouse=True)
def _own_handlers() -> Any:
    with registry.preserved():
        registry.clear()  # a recurring task of another test would remain
        yield


def run_all() -> None:
    for num in NUMS:
        add_task(Task(biz_code="once", biz_num=num), once=True)
    with executing(threads=1):
        wait_until(lambda: not TaskRow.objects.exists())


@pytest.mark.parametrize("way", WAYS)
def test_it_runs_again(way: str) -> None:
    """This is so in whichever way its runs are settled."""
    handler = Rescheduled(way)
    run_all()
    assert sorted(handler.seen) == ["1", "1", "2", "2"]
    assert list(TaskRun.objects.values_list("outcome", flat=True)) == [RunOutcome.DONE] * 4
    assert Success.objects.count() == len(NUMS)
    assert add_task(Task(biz_code="once", biz_num="1"), once=True).action is AddAction.FILTERED


@pytest.mark.parametrize("way", ["plain", "atomic"])
def test_what_is_done_then_is_remembered(way: str) -> None:
    """The first run did not succeed: it is the second that did what is to be done once."""
    handler = Rescheduled(way, first=Retry())
    run_all()
    assert sorted(handler.seen) == ["1", "1", "2", "2"]
    assert Success.objects.count() == len(NUMS)
