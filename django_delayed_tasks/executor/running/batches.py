"""Groups claimed tasks into batches: tasks of a handler with ``handle_batch`` are run in one call."""

from collections.abc import Container, Iterable, Sequence

from django_delayed_tasks.clock import monotonic
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

Batch = list[ClaimedTask]
"""Tasks of one handler that are run in one call; at least one."""

REMEMBERED = 3600.0
"""Seconds for which a task of a broken batch is remembered."""


class BrokenBatches:
    """Tasks whose batch raised: for :data:`REMEMBERED` they are run one by one, even after they were given back."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def note(self, tasks: Iterable[ClaimedTask]) -> None:
        """Note tasks whose batch has just raised."""
        now = monotonic()
        self._until = {task_id: until for task_id, until in self._until.items() if until > now}
        self._until |= {task.id: now + REMEMBERED for task in tasks}

    def __contains__(self, task: object) -> bool:
        return isinstance(task, ClaimedTask) and self._until.get(task.id, 0.0) > monotonic()


def batches_of(tasks: Iterable[ClaimedTask], broken: Container[ClaimedTask] = ()) -> list[Batch]:
    """Return the tasks grouped for running: those of a handler with ``handle_batch`` together, the others one by one.

    A task that was rescued from a dead executor, or whose last attempt failed or hung, is run by itself too: it may be
    the cause, and must not take other tasks down with it again.
    """
    batches: list[Batch] = []
    open_ones: dict[str, Batch] = {}
    for task in tasks:
        handler = find(task.biz_code)
        if handler is None or not handler.is_batched or task.rescues or task.attempts > 1 or task in broken:
            batches.append([task])
            continue
        batch = open_ones.get(task.biz_code)
        if batch is None or len(batch) >= handler.batch_size:
            batch = open_ones[task.biz_code] = []
            batches.append(batch)
        batch.append(task)
    return batches


def missing_in_batch(tasks: Sequence[ClaimedTask]) -> int:
    """Return how many more tasks would fill the last batch of ``tasks``.

    Return 0 if the tasks are not all of one code, or their handler runs them one by one.
    """
    code = tasks[0].biz_code
    handler = find(code)
    if handler is None or not handler.is_batched or any(task.biz_code != code for task in tasks):
        return 0
    return -len(tasks) % handler.batch_size
