"""The backlog: by queue, with the executors that serve it and the moment since which it is late; tasks by status."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats.figures import Figures
from django_delayed_tasks.stats.limits import Limited, waits_of
from django_delayed_tasks.stats.snapshot import LATE, MAX_RUNNING, Snapshot, take_snapshot
from django_delayed_tasks.stats.suspects import HeldBack
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming import waiting
from django_delayed_tasks.store.claiming.waiting import COUNTED

MAX_QUEUES: Final = waiting.MAX_LEVELS
"""Queues of the backlog, and that a filter offers: anything may be the name of a task's queue."""


@dataclass(frozen=True)
class QueueBacklog(Figures):
    """One queue.

    Attributes:
        served_by: the names of the live executors that serve it.
        due: how many of its tasks are due; ``COUNTED + 1`` or more stand for "more than ``COUNTED``".
        ready: how many of these nothing holds back.
        earliest: when the first of its pending tasks that nothing holds back became claimable, or will be.
        latency: how long that task has been due; zero if none is.
        limited: the due tasks that wait for limits of their handlers.
        held_back: the due tasks that wait while others run that were rescued, too; None if there are none.
        pending: how many tasks wait in it, due or not: exact if no more than ``COUNTED`` wait in all queues together,
            else according to the latest survey; None if that is not known.
    """

    also = ("is_late",)

    name: str
    served_by: list[str]
    due: int
    ready: int
    earliest: datetime | None
    latency: timedelta
    limited: list[Limited]
    pending: int | None
    running: int
    paused_at: datetime | None
    held_back: HeldBack | None

    @property
    def is_late(self) -> bool:
        """Whether tasks wait although they are due and nothing holds them back, and the queue is not paused."""
        return self.latency > LATE and self.paused_at is None


@dataclass(frozen=True)
class RunningTask(Figures):
    """A task that an executor has claimed, with the moment at which it did."""

    id: int
    code: str
    number: str
    since: datetime
    duration: timedelta
    executor: str
    progress: float | None
    note: str


@dataclass(frozen=True)
class Backlog(Figures):
    """The tasks that wait, run and have failed at the moment ``now`` of the database's clock.

    ``pending``, ``failed`` and ``paused`` are exact up to ``COUNTED``; beyond that they are the latest survey's, which
    was finished at ``surveyed_at``, or ``COUNTED + 1`` for "more than ``COUNTED``" if it does not know. ``claimed`` is
    the number of running tasks by the id of their executor.
    """

    left_out = ("claimed",)
    also = ("latency",)

    now: datetime
    queues: list[QueueBacklog]
    pending: int
    running: int
    failed: int
    paused: int
    longest: list[RunningTask] = field(default_factory=list)
    surveyed_at: datetime | None = None
    claimed: dict[int, int] = field(default_factory=dict)

    @property
    def late(self) -> list[QueueBacklog]:
        """The queues that are late, the one with the longest latency first."""
        return sorted((queue for queue in self.queues if queue.is_late), key=lambda queue: -queue.latency)

    @property
    def latency(self) -> timedelta:
        """The longest latency of a late queue; zero if no queue is late."""
        return max((queue.latency for queue in self.late), default=timedelta())

    @property
    def late_tasks(self) -> int:
        """The number of ready tasks of late queues; of each level, more than ``COUNTED`` count as ``COUNTED + 1``."""
        return sum(queue.ready for queue in self.late)

    def as_json(self) -> dict[str, Any]:
        """Return the figures for JSON; the queues have the figures of late queues."""
        return super().as_json() | {"late": self.late_tasks}


def backlog(*, using: str | None = None) -> Backlog:
    """Return the tasks that wait, run or have failed, in numbers."""
    return backlog_of(take_snapshot(using))


def backlog_of(seen: Snapshot) -> Backlog:
    """Like :func:`backlog`, from a snapshot."""
    running = seen.running
    pending = waiting.count_pending(seen.alias)
    total = _exact_or_surveyed(seen, TaskStatus.PENDING, sum(pending.values()))
    return Backlog(
        seen.now,
        queues_of(seen, running, pending if total <= COUNTED else _surveyed_queues(seen)),
        total,
        len(running) if len(running) <= MAX_RUNNING else max(len(running), _count(seen, TaskStatus.RUNNING)),
        _count(seen, TaskStatus.FAILED),
        _count(seen, TaskStatus.PAUSED),
        _longest(seen, running),
        seen.survey.taken_at,
        dict(Counter(task.executor or 0 for task in running)),
    )


@dataclass(frozen=True, slots=True)
class StatusCount:
    """The number of tasks that have a status: exact, or else the latest survey's, or else a bound that they exceed."""

    tasks: int
    is_exact: bool
    is_surveyed: bool = False


def count_statuses(seen: Snapshot) -> dict[TaskStatus, StatusCount]:
    """Return how many tasks have each status, counted up to ``COUNTED``; the rest is from the latest survey."""
    counted = {status: waiting.count_status(seen.alias, status) for status in TaskStatus}
    is_known = max(counted.values()) <= COUNTED
    surveyed = {} if is_known else seen.totals
    return {status: _status_count(count, surveyed.get(status, 0)) for status, count in counted.items()}


def _status_count(counted: int, surveyed: int) -> StatusCount:
    if counted <= COUNTED:
        return StatusCount(counted, is_exact=True)
    return StatusCount(max(COUNTED, surveyed), is_exact=False, is_surveyed=surveyed > COUNTED)


def _count(seen: Snapshot, status: TaskStatus) -> int:
    return _exact_or_surveyed(seen, status, waiting.count_status(seen.alias, status))


def _exact_or_surveyed(seen: Snapshot, status: TaskStatus, count: int) -> int:
    return count if count <= COUNTED else max(count, seen.survey.total(status) or 0)


def _surveyed_queues(seen: Snapshot) -> dict[str, int] | None:
    return seen.survey.data.get("queues", {}) if seen.survey.taken_at else None


def queues_of(
    seen: Snapshot, running: Iterable[Task] = (), pending: Mapping[str, int] | None = None
) -> list[QueueBacklog]:
    """Return the queues that are paused, have pending or ``running`` tasks, or that handlers in this process name.

    Paused ones come first, then the ones with the longest waiting task.

    ``pending``: how many pending tasks each queue has, if that is known.
    """
    waits = waits_of(seen)
    earliest: dict[str, datetime] = {}
    ready: Counter[str] = Counter()
    for level in seen.agenda.levels:
        if moment := waits.first(level):
            earliest[level.queue] = min(moment, earliest.get(level.queue, moment))
            ready[level.queue] += seen.due_levels.get(level, 0) - waits.apart.counts.get(level, 0)
    apart = {one.queue: one for one in waits.apart.held_back}
    limited: defaultdict[str, list[Limited]] = defaultdict(list)
    for one in waits.limited:
        limited[one.queue].append(one)
    named = {handler.queue for handler in get_task_handlers().values()}
    busy: dict[str, int] = {}
    for task in running:
        busy[task.queue] = busy.get(task.queue, 0) + 1
    first = {one.queue: one.since for one in reversed(waits.limited)} | {name: apart[name].since for name in apart}
    first |= earliest
    names = sorted(
        {*first, *named, *seen.paused, *busy},
        key=lambda name: (name not in seen.paused, name not in first, first.get(name, seen.now), name),
    )
    return [
        QueueBacklog(
            name, [executor.name for executor in seen.serving(name)], seen.due.get(name, 0), ready[name],
            earliest.get(name), max(timedelta(), seen.now - earliest.get(name, seen.now)), limited[name],
            None if pending is None else pending.get(name, 0), busy.get(name, 0), seen.paused.get(name),
            apart.get(name),
        )
        for name in names[:MAX_QUEUES]
    ]  # fmt: skip


def _longest(seen: Snapshot, running: list[Task]) -> list[RunningTask]:
    names = {executor.pk: executor.name for executor in seen.executors}
    first = sorted(running, key=lambda task: task.update_time)[:10]
    if dead := {task.executor for task in first if task.executor} - names.keys():
        names |= executors.names(seen.alias, dead)
    return [
        RunningTask(
            task.pk, task.biz_code, str(task.biz_num), task.update_time,
            max(timedelta(), seen.now - task.update_time), names.get(task.executor or 0, ""),
            task.progress_fraction, task.progress_note or "",
        )
        for task in first
    ]  # fmt: skip
