"""The names of queues that a person typed: which of them nothing else knows."""

from collections.abc import Collection, Sequence

from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.waiting import read_agenda


def unnamed(alias: str, queues: Sequence[str], besides: int = 0) -> list[str]:
    """Return which of these queues no task has, no handler here has by default, and no live executor was started for.

    ``besides``: the id of an executor that does not count.
    """
    known = {handler.queue for handler in get_task_handlers().values()}
    if not (doubtful := [queue for queue in queues if queue not in known]):
        return []
    for names in Executor.objects.using(alias).filter(alive=True).exclude(pk=besides).values_list("queues", flat=True):
        known.update(names or ())
    levels = read_agenda(alias).levels
    known.update(level.queue for level in levels)
    lanes = {"", *(level.lane for level in levels)}
    return [queue for queue in doubtful if queue not in known and not _has_tasks(alias, queue, lanes)]


def _has_tasks(alias: str, queue: str, lanes: Collection[str]) -> bool:
    # The condition names every status and lane, because the claim index starts with them.
    tasks = Task.objects.using(alias).filter(status__in=TaskStatus.values, lane__in=sorted(lanes), queue=queue)
    return tasks.exists()
