"""A snapshot of the tasks' database: each thing that several statistics need is read once."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.db import connections

from django_delayed_tasks import clock
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.models import Executor, PausedQueue, Task
from django_delayed_tasks.states import ExecutorStatus, TaskStatus
from django_delayed_tasks.store.claiming import waiting
from django_delayed_tasks.store.claiming.agenda import Agenda, Level
from django_delayed_tasks.store.claiming.waiting import COUNTED, Next
from django_delayed_tasks.store.records import survey

MAX_EXECUTORS = 500
"""Executors that are read: the live ones, and the crashed ones."""
FIRST = 20
"""Due tasks of each level that are read, to say what they wait for."""
MAX_RUNNING = 2000
"""The most running tasks that are read."""
LATE = timedelta(seconds=5)
"""The time for which a task is due before it counts as late: executors look for tasks several times a second."""


@dataclass
class Snapshot:
    """A reading of the tasks' database; each part is read when it is first asked for, and then kept."""

    alias: str

    @cached_property
    def agenda(self) -> Agenda:
        """The levels with pending tasks, also of paused queues."""
        return self._reading[0]

    @cached_property
    def host_ahead(self) -> timedelta:
        """The time by which the clock of this host is ahead of the database's, to within the duration of a query."""
        agenda, before, after = self._reading
        return min(after - agenda.now, before - agenda.now, key=abs)

    @cached_property
    def _reading(self) -> tuple[Agenda, datetime, datetime]:
        """The agenda, and the time of this host before and after it was read."""
        before = clock.host_now()
        agenda = waiting.read_agenda(self.alias)
        return agenda, before, clock.host_now()

    @cached_property
    def now(self) -> datetime:
        """The time of the database's clock when the agenda was read."""
        return self.agenda.now

    @property
    def time_by_now(self) -> datetime:
        """The time of the database's clock at this moment; other readings may have taken seconds."""
        return self.now + (clock.host_now() - self._reading[2])

    @cached_property
    def executors(self) -> list[Executor]:
        """The executors that are alive by their rows, also if their lease has run out."""
        rows: Any = Executor.objects.using(self.alias).filter(alive__in=[True]).order_by("name")
        return list(rows[:MAX_EXECUTORS])

    @cached_property
    def alive(self) -> list[Executor]:
        """The executors whose lease has not run out."""
        return [executor for executor in self.executors if executor.expires_at >= self.now]

    @cached_property
    def crashed(self) -> list[Executor]:
        """The executors that crashed lately and whose names no live executor has."""
        rows: Any = Executor.objects.using(self.alias).filter(alive=None, expires_at__gt=self.now - timedelta(hours=1))
        names = {executor.name for executor in self.executors}
        found = rows.order_by("-expires_at")[:MAX_EXECUTORS]
        latest: dict[str, Executor] = {}
        for executor in found:
            latest.setdefault(executor.name, executor)
        return [one for one in latest.values() if one.status == ExecutorStatus.CRASHED and one.name not in names]

    @cached_property
    def paused(self) -> dict[str, datetime]:
        """The paused queues, with the moments from which they are."""
        rows: Any = PausedQueue.objects.using(self.alias).order_by("queue").values_list("queue", "paused_at")
        return dict(rows[: waiting.MAX_LEVELS])

    @cached_property
    def due(self) -> dict[str, int]:
        """The number of due tasks of each queue, exact up to a bound for each level."""
        counts: Counter[str] = Counter()
        for level, count in self.due_levels.items():
            counts[level.queue] += count
        return dict(counts)

    @cached_property
    def due_levels(self) -> dict[Level, int]:
        """The number of due tasks of each level, exact up to a bound."""
        return waiting.count_due(self.alias, self.agenda)

    @cached_property
    def running(self) -> list[Task]:
        """The running tasks; one more than ``MAX_RUNNING`` if there are more."""
        columns = (
            "biz_code", "biz_num", "queue", "update_time", "executor", "rescues", "progress_fraction", "progress_note",
        )  # fmt: skip
        return list(waiting.running_tasks(self.alias).only(*columns)[: MAX_RUNNING + 1])

    @cached_property
    def in_threads(self) -> list[Task]:
        """The running tasks, except on an event loop; they are more than the threads if some wait for one."""
        return [task for task in self.running if task.biz_code not in registry.async_codes]

    @cached_property
    def next(self) -> Next:
        """The tasks that become due next."""
        return waiting.read_next(self.alias, self.agenda, COUNTED)

    @cached_property
    def first_due(self) -> list[waiting.Waiting]:
        """The tasks that have been due for the longest time, some of each level."""
        return waiting.read_first(self.alias, self.agenda, FIRST)

    @cached_property
    def survey(self) -> "Surveyed":
        """The result of the latest survey."""
        row = survey.read(self.alias)
        return Surveyed(row.taken_at, row.data) if row and isinstance(row.data, dict) else Surveyed(None, {})

    @cached_property
    def totals(self) -> Mapping[TaskStatus, int]:
        """The number of tasks in each status in the latest survey, of which nothing else is read; empty if none was."""
        return survey.read_totals(self.alias)

    def serving(self, queue: str) -> list[Executor]:
        """Return the live executors that serve a queue."""
        return [executor for executor in self.alive if serves(executor, queue)]

    def idle_threads(self, queue: str) -> int:
        """Return how many threads of the executors that serve a queue run nothing."""
        busy = Counter(task.executor for task in self.in_threads)
        return sum(max(0, one.threads - busy[one.pk]) for one in self.serving(queue))


@dataclass(frozen=True)
class Surveyed:
    """The result of a survey; ``taken_at`` is None if there was none."""

    taken_at: datetime | None
    data: dict[str, Any]

    def total(self, status: int) -> int | None:
        """Return how many tasks had this status; None if that is not known."""
        return self.data.get("totals", {}).get(str(status), 0) if self.taken_at else None


def serves(executor: Executor, queue: str) -> bool:
    """Return whether an executor serves a queue, according to its row."""
    excluded, only = executor.exclude_queues, executor.queues
    return queue not in (excluded or ()) and (only is None or queue in only)


def take_snapshot(using: str | None = None) -> Snapshot:
    """Return a snapshot of the tasks' database, or of the one with this alias.

    Raises:
        TaskException: there is no such database.
    """
    alias = using or settings.DATABASE
    if alias not in connections:
        raise TaskException(f"there is no database {alias!r}; the aliases are {', '.join(connections)}")
    return Snapshot(alias)
