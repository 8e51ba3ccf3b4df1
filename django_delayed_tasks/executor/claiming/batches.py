"""How claimed tasks are put together: those of a handler with ``handle_batch`` in one call."""

from collections.abc import Container, Iterable, Sequence

from django_delayed_tasks.clock import monotonic
from django_delayed_tasks.executor.running.batch import Batch
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

REMEMBERED = 3600.0
"""Seconds."""


class BrokenBatches:
    """Tasks whose batch has raised: until they have run they are not put together with others again, also when they
    were given back meanwhile.
    """

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def note(self, tasks: Iterable[ClaimedTask]) -> None:
        """Their batch has just raised."""
        now = monotonic()
        self._until = {task_id: until for task_id, until in self._until.items() if until > now}
        self._until |= {task.id: now + REMEMBERED for task in tasks}

    def __contains__(self, task: object) -> bool:
        return isinstance(task, ClaimedTask) and self._until.get(task.id, 0.0) > monotonic()


def batches_of(tasks: Iterable[ClaimedTask], broken: Container[ClaimedTask] = ()) -> list[Batch]:
    """The tasks as they are run: those of a handler with ``handle_batch`` together, each other one by itself.

    So is one that was there when an executor died, or whose last attempt failed or hung: it may be the cause, and must
    not take others with it again.
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
    """How many more tasks would fill the last of the batches that these make; 0 if they are not all of one code, or
    run one by one.
    """
    code = tasks[0].biz_code
    handler = find(code)
    if handler is None or not handler.is_batched or any(task.biz_code != code for task in tasks):
        return 0
    return -len(tasks) % handler.batch_size
