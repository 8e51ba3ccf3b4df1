"""The admin pages: tasks, queues and resources can be viewed and changed, runs and executors only viewed."""

from django_delayed_tasks.admin.executors import ExecutorAdmin
from django_delayed_tasks.admin.overview.page import OverviewAdmin
from django_delayed_tasks.admin.queues import PausedQueueAdmin
from django_delayed_tasks.admin.resources import ResourceAdmin
from django_delayed_tasks.admin.runs import TaskRunAdmin
from django_delayed_tasks.admin.tasks.list import TaskAdmin

__all__ = ["ExecutorAdmin", "OverviewAdmin", "PausedQueueAdmin", "ResourceAdmin", "TaskAdmin", "TaskRunAdmin"]
