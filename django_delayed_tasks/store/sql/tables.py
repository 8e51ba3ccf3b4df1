"""Tables, statuses and lists of columns that raw SQL statements use."""

from typing import Final

from django_delayed_tasks.models import Executor, PausedQueue, Resource, Statistic, Success, Task, TaskRun, Waiter
from django_delayed_tasks.states import TaskStatus

TASK: Final = Task._meta.db_table
RUN: Final = TaskRun._meta.db_table
PAUSED_QUEUE: Final = PausedQueue._meta.db_table
SUCCESS: Final = Success._meta.db_table
EXECUTOR: Final = Executor._meta.db_table
RESOURCE: Final = Resource._meta.db_table
WAITER: Final = Waiter._meta.db_table
STATISTIC: Final = Statistic._meta.db_table

PENDING: Final = int(TaskStatus.PENDING)
RUNNING: Final = int(TaskStatus.RUNNING)
FAILED: Final = int(TaskStatus.FAILED)

PAUSED: Final = int(TaskStatus.PAUSED)

STOPPING: Final = (
    f"({TASK}.status = {RUNNING} AND {TASK}.cancel_requested_at IS NOT NULL AND {TASK}.deferred_when IS NULL)"
)
"""The condition that a row exists only for its current run: the task was cancelled, and no schedule is deferred."""

CARRIED: Final = ("biz_ext", "queue", "priority", "trigger_text", "expires_at", "once", "trace")
"""The columns of a schedule other than its time. While the task runs, a new schedule's values wait in the columns
``deferred_*``.
"""

FORGET_DEFERRED: Final = (
    "deferred_when = NULL, deferred_biz_ext = NULL, deferred_queue = '', deferred_priority = NULL,"
    " deferred_trigger_text = NULL, deferred_expires_at = NULL, deferred_once = NULL,"
    " deferred_keeps_ext = NULL, deferred_trace = NULL"
)

RESET: Final = {"attempts": "0", "rescues": "0", "last_error": "''"}
"""Columns that are reset when a task gets a new time, each with its initial value."""

RESET_COUNTS: Final = ", ".join(f"{column} = {value}" for column, value in RESET.items())

FORGET_PROGRESS: Final = "progress_fraction = NULL, progress_note = NULL, progress_at = NULL"
