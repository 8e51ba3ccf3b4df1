"""What the tasks of the benchmarks do."""

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
