"""The names that raw SQL needs."""

from typing import Final

from django_delayed_tasks.models import Executor, PausedQueue, Resource, Success, Task, TaskRun, Waiter
from django_delayed_tasks.states import TaskStatus

TASK: Final = Task._meta.db_table
RUN: Final = TaskRun._meta.db_table
PAUSED_QUEUE: Final = PausedQueue._meta.db_table
SUCCESS: Final = Success._meta.db_table
EXECUTOR: Final = Executor._meta.db_table
RESOURCE: Final = Resource._meta.db_table
WAITER: Final = Waiter._meta.db_table

PENDING: Final = int(TaskStatus.PENDING)
RUNNING: Final = int(TaskStatus.RUNNING)
FAILED: Final = int(TaskStatus.FAILED)

PAUSED: Final = int(TaskStatus.PAUSED)

STOPPING: Final = (
    f"({TASK}.status = {RUNNING} AND {TASK}.cancel_requested_at IS NOT NULL AND {TASK}.deferred_when IS NULL)"
)
"""Whether a row is there for its present run only: it was cancelled meanwhile, and nothing is to come after."""

CARRIED: Final = ("biz_ext", "queue", "priority", "trigger_text", "expires_at", "once")
"""What a schedule brings beside its time. While the task runs it waits in the column of the same name, deferred."""

FORGET_DEFERRED: Final = (
    "deferred_when = NULL, deferred_biz_ext = NULL, deferred_queue = '', deferred_priority = NULL,"
    " deferred_trigger_text = NULL, deferred_expires_at = NULL, deferred_once = NULL,"
    " deferred_keeps_ext = NULL"
)

RESET: Final = {"attempts": "0", "rescues": "0", "last_error": "''"}
"""What belongs to the time that a task had: each column with its value when the task gets another time."""

RESET_COUNTS: Final = ", ".join(f"{column} = {value}" for column, value in RESET.items())

FORGET_PROGRESS: Final = "progress_fraction = NULL, progress_note = NULL, progress_at = NULL"
