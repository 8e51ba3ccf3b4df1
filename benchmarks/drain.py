"""One measurement in a process of its own: fill, drain, print tasks per second.

``python -m benchmarks.drain lean|product TASKS``
"""

import sys
import time

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection

BATCH = 100


def lean(tasks: int) -> float:
    """The lean pipeline's rate."""
    entry = settings.DATABASES["default"]
    if connection.vendor == "postgresql":
        from benchmarks.lean import postgres

        return postgres.drain_rate(entry, tasks, BATCH)
    from benchmarks.lean import mysql

    return mysql.drain_rate(entry, tasks, BATCH)


def product(tasks: int) -> float:
    """The rate of one executor with default options, from its start to the last settlement."""
    from django_delayed_tasks.executor.executor import Executor
    from django_delayed_tasks.executor.options import from_settings
    from django_delayed_tasks.models import TaskRun

    fill(tasks)
    executor = Executor(from_settings(drain=True))
    began = time.monotonic()
    executor.start()
    executor.drained.wait()
    seconds = time.monotonic() - began
    executor.stop()
    if (recorded := TaskRun.objects.count()) != tasks:
        raise SystemExit(f"{tasks} tasks, but {recorded} rows of history")
    return tasks / seconds


def fill(tasks: int) -> None:
    """Due tasks, no history, fresh statistics."""
    from django_delayed_tasks import Task, TaskRun, add_tasks

    call_command("migrate", verbosity=0)
    Task.objects.all().delete()
    TaskRun.objects.all().delete()
    add_tasks((Task(biz_code="nothing", biz_num=str(number)) for number in range(tasks)), batch_size=2000)
    with connection.cursor() as cursor:
        words = "ANALYZE TABLE" if connection.vendor == "mysql" else "ANALYZE"
        cursor.execute(f"{words} {Task._meta.db_table}")
        if connection.vendor == "mysql":
            cursor.fetchall()


if __name__ == "__main__":
    django.setup()
    print({"lean": lean, "product": product}[sys.argv[1]](int(sys.argv[2])))
