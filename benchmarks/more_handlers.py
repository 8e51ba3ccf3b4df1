"""Handlers that write."""

from typing import Any

from django_delayed_tasks import TaskHandler


class Inserting(TaskHandler):
    """One row, in one transaction with the settlement."""

    biz_code = "insert"
    atomic = True

    def handle(self, task: Any) -> None:
        from benchmarks.effects.models import Effect

        Effect.objects.create(biz_num=task.biz_num)
