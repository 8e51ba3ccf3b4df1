"""Rescued tasks that are held back while others run: one of them may crash executors, so they run one at a time."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

from django.utils.translation import gettext as _

from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import Task
from django_delayed_tasks.stats.figures import Figures
from django_delayed_tasks.stats.reasons import closed
from django_delayed_tasks.stats.snapshot import LATE, Snapshot
from django_delayed_tasks.store.claiming import waiting
from django_delayed_tasks.store.claiming.agenda import Level
from django_delayed_tasks.store.claiming.suspects import rescues_below
from django_delayed_tasks.store.claiming.waiting import COUNTED, Waiting
from django_delayed_tasks.store.sql.lanes import BLOCKED
from django_delayed_tasks.support.durations import duration_text

MAX_NAMED: Final = 3
"""Running tasks that are named in a text."""


@dataclass(frozen=True, slots=True)
class Suspect(Figures):
    """A running task that was rescued from a dead executor."""

    code: str
    number: str
    executor: str
    duration: timedelta


@dataclass(frozen=True, slots=True)
class HeldBack(Figures):
    """The due tasks of one queue that no executor claims now, because each runs another one that was rescued.

    Attributes:
        tasks: how many; ``COUNTED + 1`` stands for "more than ``COUNTED``".
        since: when the first of them became due.
        behind: those that run, one of each executor of the queue.
    """

    queue: str
    tasks: int
    since: datetime
    behind: list[Suspect]


class Apart(NamedTuple):
    """The tasks that are held back, and for each level that has some the first due task that is not; None if all are.

    ``counts``: how many of the due tasks of these levels are held back.
    """

    held_back: list[HeldBack]
    first: Mapping[Level, datetime | None]
    counts: Mapping[Level, int]


def held_back(seen: Snapshot) -> Apart:
    """Return which due tasks are held back; the first of them is told after a moment."""
    late = seen.now - LATE
    due = [level for level in seen.agenda.levels if level.earliest <= late and level.lane != BLOCKED]
    bounds = {queue: bound for queue in {level.queue for level in due} if (bound := bound_of(seen, queue))}
    levels = [level for level in due if level.queue in bounds]
    found = waiting.read_first_of_levels(seen.alias, replace(seen.agenda, levels=tuple(levels)), COUNTED + 1)
    first: dict[Level, datetime | None] = {}
    of_queues: defaultdict[str, list[Waiting]] = defaultdict(list)
    counts: Counter[Level] = Counter()
    for level, tasks in found.items():
        held = [task for task in tasks if task.rescues >= bounds[level.queue]]
        if held:
            of_queues[level.queue] += held
            counts[level] = len(held)
            first[level] = next((task.claim_at for task in tasks if task.rescues < bounds[level.queue]), None)
    rows = [_row(seen, queue, tasks) for queue, tasks in of_queues.items()]
    return Apart(sorted(rows, key=lambda one: one.since), first, counts)


def _row(seen: Snapshot, queue: str, tasks: Sequence[Waiting]) -> HeldBack:
    return HeldBack(queue, min(len(tasks), COUNTED + 1), min(task.claim_at for task in tasks), behind(seen, queue))


def bound_of(seen: Snapshot, queue: str) -> int | None:
    """Return the number of rescues from which on a task is held back by every executor of the queue; None if none is.

    A paused queue, or one without an executor, has another reason.
    """
    running = _rescued(seen)
    below = partial(rescues_below, max_rescues=settings.MAX_RESCUES)
    bounds = [below(task.rescues for task in running.get(one.pk, ())) for one in seen.serving(queue)]
    if closed(seen, queue) or None in bounds:
        return None
    return max(bound for bound in bounds if bound)


def behind(seen: Snapshot, queue: str) -> list[Suspect]:
    """Return of each executor of the queue the task that it runs which was rescued most often."""
    running = _rescued(seen)
    tasks = [(one.name, max(running[one.pk], key=_most)) for one in seen.serving(queue) if one.pk in running]
    return [_suspect(seen, task, name) for name, task in sorted(tasks, key=lambda pair: pair[1].update_time)]


def _most(task: Task) -> tuple[int, int]:
    return task.rescues, -task.pk


def _suspect(seen: Snapshot, task: Task, executor: str) -> Suspect:
    return Suspect(task.biz_code, str(task.biz_num), executor, max(timedelta(), seen.now - task.update_time))


def _rescued(seen: Snapshot) -> Mapping[int, Collection[Task]]:
    """Return the running tasks that were rescued, by the ids of their executors."""
    found: defaultdict[int, list[Task]] = defaultdict(list)
    for task in seen.running:
        if task.rescues and task.executor:
            found[task.executor].append(task)
    return found


def running_text(suspects: Sequence[Suspect]) -> str:
    """Return that these tasks run: "export 1 runs on web (for 2 min), export 2 runs on web-2 (for 10 s)"."""
    text = _("%(task)s runs on %(executor)s (for %(time)s)")
    each = [
        text % {"task": f"{one.code} {one.number}", "executor": one.executor, "time": duration_text(one.duration)}
        for one in suspects[:MAX_NAMED]
    ]
    return ", ".join([*each, *(["…"] if len(suspects) > MAX_NAMED else [])])
