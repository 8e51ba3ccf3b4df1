"""The names that raw SQL needs."""

from typing import Final

from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.states import TaskStatus

TASK: Final = Task._meta.db_table
RUN: Final = TaskRun._meta.db_table
EXECUTOR: Final = Executor._meta.db_table

PENDING: Final = int(TaskStatus.PENDING)
RUNNING: Final = int(TaskStatus.RUNNING)
FAILED: Final = int(TaskStatus.FAILED)

FORGET_DEFERRED: Final = "deferred_when = NULL, deferred_biz_ext = NULL, deferred_queue = '', deferred_priority = NULL"

FORGET_PROGRESS: Final = "progress_fraction = NULL, progress_note = NULL, progress_at = NULL"
