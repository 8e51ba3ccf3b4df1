"""What the history says of codes that tick."""

from datetime import datetime

from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome


def done(code: str, **wanted: str) -> list[datetime]:
    """The times that the runs stood for which ended well, in order."""
    runs = TaskRun.objects.filter(biz_code=code, outcome=RunOutcome.DONE, **wanted).order_by("id")
    return [datetime.fromisoformat(str(result)) for result in runs.values_list("result", flat=True)]


def count_done(*codes: str) -> int:
    """Return how many runs of these codes ended well."""
    return TaskRun.objects.filter(biz_code__in=codes, outcome=RunOutcome.DONE).count()


def next_time(code: str) -> datetime:
    """Return the time that the one row of this code waits for."""
    return Task.objects.get(biz_code=code).when
