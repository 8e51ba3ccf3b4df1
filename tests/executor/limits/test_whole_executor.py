"""An executor with threads keeps a limit, and runs each task once."""

from typing import Any

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
