"""Finding tasks and runs: lazy querysets that only read."""

from datetime import datetime
from typing import Final, TypeVar

from django.db import connections
from django.db.models import Q, QuerySet
from django.db.models.functions import Lower

from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import BizNum, RunOutcome, TaskStatus
from django_delayed_tasks.store.records.history import CUT_OFF
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.tables import PENDING, TASK
from django_delayed_tasks.store.validation import valid_fragment, valid_moment, valid_part

MAX_RUNS: Final = 1000
"""Runs of a task that are read to count some of them."""
Row = TypeVar("Row", Task, TaskRun)


def find_pending(
    alias: str,
    biz_code: str | None,
    biz_num: BizNum | None,
    when: datetime | None,
    due_before: datetime | None = None,
    due_after: datetime | None = None,
) -> "QuerySet[Task]":
    """Return pending tasks, earliest first.

    ``biz_num`` is a fragment of the number, compared case-insensitively. Of the moments, ``due_after`` is included and
    ``due_before`` is not. ``when`` matches exactly if any of these tasks has exactly this time; otherwise all later
    ones match.
    """
    tasks = find_all(alias, biz_code, biz_num, due_before, due_after).filter(status=TaskStatus.PENDING)
    if when is not None:
        moment = valid_moment(when)
        exact = tasks.filter(when=moment)
        tasks = exact if exact.exists() else tasks.filter(when__gt=moment)
    return tasks.order_by("when", "id")


def find_all(
    alias: str,
    biz_code: str | None,
    biz_num: BizNum | None,
    due_before: datetime | None,
    due_after: datetime | None,
) -> "QuerySet[Task]":
    """Return tasks in any status, in no order; the arguments are those of :func:`find_pending`."""
    tasks = _narrowed(Task.objects.using(alias).all(), biz_code, biz_num)
    if due_after is not None:
        tasks = tasks.filter(when__gte=valid_moment(due_after, "due_after"))
    if due_before is not None:
        tasks = tasks.filter(when__lt=valid_moment(due_before, "due_before"))
    return tasks


def find_failed(tasks: "QuerySet[Task]", since: datetime | None) -> "QuerySet[Task]":
    """Return those of these tasks that are FAILED and, with ``since``, have not changed before that moment."""
    failed = tasks.filter(status=TaskStatus.FAILED)
    return failed if since is None else failed.filter(update_time__gte=valid_moment(since, "failed_since"))


def find_task(alias: str, biz_code: str, biz_num: str) -> Task | None:
    """Return the task of this identity, in any status; None if there is none."""
    return Task.objects.using(alias).filter(biz_code=biz_code, biz_num=biz_num).first()


def find_runs_of(alias: str, biz_code: str, biz_num: str) -> "QuerySet[TaskRun]":
    """Return the runs of this identity, newest first."""
    return TaskRun.objects.using(alias).filter(biz_code=biz_code, biz_num=biz_num).order_by("-id")


def count_cut_offs(alias: str, task: Task) -> int:
    """Return how many of the latest ``MAX_RUNS`` runs were cut off, of those for the time that the task has now."""
    latest = find_runs_of(alias, task.biz_code, task.biz_num)[:MAX_RUNS]
    runs = latest.values_list("task_id", "when", "outcome", "exception")
    cut_off = (task.pk, RunOutcome.LOST, CUT_OFF)
    return sum((task_id, outcome, error) == cut_off and when >= task.when for task_id, when, outcome, error in runs)


def find_runs(alias: str, biz_code: str | None, biz_num: BizNum | None) -> "QuerySet[TaskRun]":
    """Return the runs of a code whose number contains the fragment ``biz_num``, newest first; None matches all."""
    return _narrowed(TaskRun.objects.using(alias).all(), biz_code, biz_num).order_by("-id")


def _narrowed(rows: "QuerySet[Row]", biz_code: str | None, biz_num: BizNum | None) -> "QuerySet[Row]":
    if biz_code is not None:
        rows = rows.filter(biz_code=valid_fragment("biz_code", biz_code))
    if biz_num is not None and (fragment := valid_part(biz_num)):
        # The column's collation is exact, even for icontains on MySQL. Some databases lower-case only ASCII letters.
        rows = rows.alias(lowered=Lower("biz_num"))
        rows = rows.filter(Q(lowered__contains=fragment.lower()) | Q(biz_num__contains=fragment))
    return rows


def count_due(alias: str) -> int:
    """Return the number of tasks that are due now; reads all of them."""
    connection = connections[alias]
    with connection.cursor() as cursor:
        now = dialect_of(connection).now
        cursor.execute(f"SELECT COUNT(*) FROM {TASK} WHERE status = {PENDING} AND claim_at <= {now}")
        return int(cursor.fetchone()[0])
