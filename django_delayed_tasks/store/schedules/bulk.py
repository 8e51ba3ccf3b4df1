"""Changing many tasks: those that a query finds, in short transactions."""

from collections.abc import Callable, Collection
from typing import Final

from django.db.models import QuerySet

from django_delayed_tasks.models import Task
from django_delayed_tasks.store.sql.fences import Claim

PORTION: Final = 500
"""The most tasks that are changed in one transaction."""

Verb = Callable[[str, Collection[Claim]], list[int]]
"""Changes those of some tasks that are still in the version in which they were seen; returns their ids."""


def change_each(tasks: "QuerySet[Task]", verb: Verb) -> int:
    """Apply the verb to all tasks that the query finds now; return how many it changed.

    A portion is a transaction, unless the caller has one open. A task that changes between the look at it and its
    portion's transaction, because it is claimed, for example, is looked at again, and changed if it still matches.
    """
    ids = sorted(tasks.values_list("id", flat=True))
    portions = (ids[start : start + PORTION] for start in range(0, len(ids), PORTION))
    return sum(_change(tasks.filter(id__in=portion), verb) for portion in portions)


def _change(tasks: "QuerySet[Task]", verb: Verb, tried: Collection[Claim] = ()) -> int:
    seen = {(task.id, task.version) for task in tasks.only("id", "version")} - set(tried)
    changed = set(verb(tasks.db, sorted(seen))) if seen else set()
    left = [task_id for task_id, _ in seen if task_id not in changed]
    return len(changed) + (_change(tasks.filter(id__in=left), verb, seen) if left else 0)
