"""What the tasks of the benchmarks do."""

import time
from typing import Any

from django_delayed_tasks import TaskHandler


class Nothing(TaskHandler):
    """The cost of a run is the machinery's."""

    biz_code = "nothing"

    def handle(self, task: Any) -> None:
        pass


class Unrecorded(Nothing):
    """The same, leaving no history."""

    biz_code = "unrecorded"
    keep_history = "none"


class Briefly(TaskHandler):
    """A tenth of a millisecond of work for a processor."""

    biz_code = "0.1 ms"
    seconds = 0.0001

    def handle(self, task: Any) -> None:
        end = time.thread_time() + self.seconds
        while time.thread_time() < end:
            pass


class Working(Briefly):
    """A millisecond of work for a processor."""

    biz_code = "1 ms"
    seconds = 0.001


class Together(TaskHandler):
    """The same, many tasks at once."""

    biz_code = "batched"

    def handle_batch(self, tasks: list[Any]) -> None:
        pass


class Inserting(TaskHandler):
    """One row, in one transaction with the settlement."""

    biz_code = "insert"
    atomic = True

    def handle(self, task: Any) -> None:
        from harness.benchmarks.effects.models import Effect

        Effect.objects.create(biz_num=task.biz_num)
