"""What is drained to count conflicts."""

from typing import Any

from django_delayed_tasks import TaskHandler

CODE = "x-nothing"


class Nothing(TaskHandler):
    """Does nothing, and not in the ledger."""

    biz_code = CODE

    def handle(self, task: Any) -> None:
        return None
