"""Task functions of code that imports the backport, whatever the version of Django."""

from typing import Any

from django_tasks import task
from django_tasks.base import TaskContext


@task
def triple(number: int) -> int:
    return 3 * number


@task(takes_context=True)
def describe(context: TaskContext, fails: bool) -> Any:
    if fails:
        raise ValueError("no")
    return context.attempt
