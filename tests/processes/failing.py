"""A handler that always raises, with data in its variables."""

from datetime import timedelta
from typing import Any

from django_delayed_tasks import Fail, TaskHandler


class Failing(TaskHandler):
    biz_code = "failing"
    max_attempts = 2

    def backoff(self, attempt: int) -> timedelta:
        return timedelta()

    def handle(self, task: Any) -> Any:
        if task.biz_num.startswith("refused"):
            return Fail(f"order {task.biz_ext['order']} is closed")
        data, token = task.biz_ext, task.biz_ext["token"]
        raise ValueError(f"order {data['order']} cannot be paid with {len(token)} characters")
