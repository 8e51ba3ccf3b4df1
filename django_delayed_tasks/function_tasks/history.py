"""The records of a function task in the database: its row, and its runs in the history."""

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from django.db.models import QuerySet

from django_delayed_tasks.exceptions import ClaimLost, TaskCancelled, TaskExpired
from django_delayed_tasks.function_tasks import data
from django_delayed_tasks.models import Success, Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.records.history import CUT_OFF, IS_CUT_OFF
from django_delayed_tasks.store.settling.settle import path_of
from django_delayed_tasks.store.settling.settlement import WENT_WELL
from django_delayed_tasks.support.redaction import FUNCTION

MAX_RUNS = 1000
"""The number of runs of a result that are read, latest first."""
LIVE = ("id", "biz_code", "biz_num", "biz_ext", "queue", "priority", "status", "version", "attempts", "rescues",
        "executor", "update_time", "expires_at", "once", "claim_at", "last_error")  # fmt: skip

_MEANING = {
    RunOutcome.CANCELLED: path_of(TaskCancelled),
    RunOutcome.EXPIRED: path_of(TaskExpired),
    RunOutcome.LOST: path_of(ClaimLost),
}
"""The exceptions that stand for ends without one."""


class Attempt(NamedTuple):
    """One attempt: the id of the executor, and when the function was called, if that is known."""

    worker: str
    started: datetime | None


_UNKNOWN = Attempt("", None)


class Life(NamedTuple):
    """A function task from its enqueuing on.

    Attributes:
        task: its row, if there still is one.
        runs: its runs since it got its schedule, without those that were cut off, the oldest first.
        purged: the number of attempts before these, of which the history has nothing any more.
    """

    biz_code: str
    biz_num: str
    enqueued: data.EnqueuedCall
    task: Task | None
    runs: Sequence[TaskRun]
    purged: int = 0

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self.task is not None and self.task.status == TaskStatus.RUNNING

    @property
    def is_waiting(self) -> bool:
        """Whether a run is to come."""
        return self.task is not None and self.task.status in (TaskStatus.PENDING, TaskStatus.PAUSED)

    @property
    def last(self) -> TaskRun | None:
        """The run that has ended last."""
        return self.runs[-1] if self.runs else None

    @property
    def failed(self) -> Task | None:
        """The row, if it has failed and the runs that led to it are no longer in the history: it has the last error."""
        is_failed = self.task is not None and self.task.status == TaskStatus.FAILED
        return self.task if is_failed and not self.runs else None

    @property
    def finished(self) -> datetime | None:
        """When the last run ended, or when the row failed."""
        if self.failed is not None:
            moment: datetime = self.failed.claim_at
            return moment
        return self.last.finished if self.last else None

    @property
    def errors(self) -> list[tuple[str, str]]:
        """For each run that failed, the path of the class of its exception, and the traceback or another text."""
        if self.failed is not None:
            return [(path_of(Exception), self.failed.last_error)]
        return [(_exception_of(run), run.error) for run in self.runs if run.outcome not in WENT_WELL]

    @property
    def attempts(self) -> list[Attempt]:
        """The attempts, with the current one."""
        if self.failed is not None:
            return [_UNKNOWN] * max(1, self.purged)
        made = [(run.executor, run.started) for run in self.runs if run.started or run.outcome == RunOutcome.LOST]
        if self.task is not None and self.is_running:
            made.append((self.task.executor, self.task.update_time))
        return [_UNKNOWN] * self.purged + [Attempt(str(executor or ""), started) for executor, started in made]


def _exception_of(run: TaskRun) -> str:
    if run.exception and run.exception != CUT_OFF:
        path: str = run.exception
        return path
    return _MEANING.get(RunOutcome(run.outcome), path_of(Exception))


def _runs_of(alias: str, task_id: int) -> "QuerySet[TaskRun]":
    """Return the runs of a task, latest first, without those that were cut off: they are no attempts."""
    runs = TaskRun.objects.using(alias).filter(task_id=task_id)
    return runs.exclude(IS_CUT_OFF).order_by("-id")


def read_life(alias: str, task_id: int) -> Life | None:
    """Return all that is known of the function task with this primary key, present or past; None if there is none."""
    for _ in range(10):  # a run may end between the two reads
        task = Task.objects.using(alias).filter(pk=task_id).only(*LIVE).first()
        latest = list(_runs_of(alias, task_id)[:MAX_RUNS])
        if not _has_changed_between(task, latest):
            break
    row: Any = task or (latest[0] if latest else None)
    if row is None:
        return None
    runs = latest[: _count_of(task)] if task else _of_last_schedule(latest)
    function = row.biz_ext.get(FUNCTION) if isinstance(row.biz_ext, dict) else None
    enqueued = data.read(row.biz_ext, function if isinstance(function, str) else row.biz_code, row.biz_num)
    ended = _count_of(task) if task else len(runs) + _attempts_before(runs[-1])
    return Life(row.biz_code, row.biz_num, enqueued, task, runs[::-1], missing(ended, runs))


def missing(ended: int, runs: Sequence[TaskRun]) -> int:
    """Return how many of the runs that have ended, and are to be shown, are no longer in the history."""
    return max(0, min(ended, MAX_RUNS) - len(runs))


def read_success(alias: str, **known: Any) -> Success | None:
    """Return the record that an identity, or the one of a primary key, was done once; None if there is none."""
    return Success.objects.using(alias).filter(**known).first()


def read_runs(alias: str, task_id: int, count: int, before_version: int) -> list[TaskRun]:
    """Return the latest ``count`` runs of a task before the claim of this version, the oldest first."""
    runs = _runs_of(alias, task_id).filter(version__lt=before_version)
    return list(runs[: min(count, MAX_RUNS)])[::-1]


def _has_changed_between(task: Task | None, latest: Sequence[TaskRun]) -> bool:
    """Return whether a run has ended between the two reads, so that they contradict each other."""
    if not task or not latest:
        return False
    return latest[0].version >= task.version if task.status == TaskStatus.RUNNING else latest[0].version > task.version


def _count_of(task: Task) -> int:
    """Return how many runs have ended since the task got its current schedule."""
    return task.attempts + task.rescues - (task.status == TaskStatus.RUNNING)


def _attempts_before(oldest: TaskRun) -> int:
    """Return how many attempts came before this run, which is the first that is known of a schedule."""
    was_waiting = oldest.outcome == RunOutcome.CANCELLED and not oldest.started
    return max(0, oldest.attempt - (not was_waiting))


def _of_last_schedule(latest: Sequence[TaskRun]) -> Sequence[TaskRun]:
    """Return the run that ended the task and the attempts that led to it, latest first.

    A task with a business identity may have ended, and been enqueued again, before.
    """
    count = 1
    for later, run in pairwise(latest):
        was_waiting = later.outcome == RunOutcome.CANCELLED and not later.started
        following = later.attempt + was_waiting  # the number of the attempt that would have followed the earlier run
        is_tried_again = run.outcome == RunOutcome.RETRIED or (run.outcome == RunOutcome.FAILED and was_waiting)
        if run.attempt != (following if run.outcome == RunOutcome.LOST else following - 1):
            break
        if not is_tried_again and run.outcome != RunOutcome.LOST:
            break
        count += 1
    return latest[:count]
