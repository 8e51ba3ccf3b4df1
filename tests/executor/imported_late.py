"""A module of functions that an executor imports when it claims a task of one; the test has a hand in that."""

from django_delayed_tasks import task_options
from tests.executor import test_project
from tests.function_tasks.framework import task

test_project.at_import()


@task
def work() -> None:
    pass


@task
@task_options(max_concurrent=1)
def limited() -> None:
    pass
