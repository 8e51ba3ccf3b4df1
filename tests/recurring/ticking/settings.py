"""Settings of the child processes: those of tests.processes, with our handlers only."""

from tests.processes.settings import *  # noqa: F403

INSTALLED_APPS = ["django_delayed_tasks", "tests.recurring.ticking"]
TASK_HANDLERS = []
