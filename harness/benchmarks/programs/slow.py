"""Settings with a handler that takes its time, and the handler."""

import time
from typing import Any

from django_delayed_tasks import TaskHandler
from harness.benchmarks.settings import *  # noqa: F403

SECONDS = 0.05
TASK_HANDLERS = ["harness.benchmarks.programs.slow.Slow"]


class Slow(TaskHandler):
    """Waits for something, as for an answer of the network."""

    biz_code = "slow"

    def handle(self, task: Any) -> None:
        time.sleep(SECONDS)
