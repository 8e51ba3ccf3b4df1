"""Make the tables of a backend of django.tasks and enqueue due tasks: ``fill_django TASKS``."""

import os
import sys
from typing import Any

import django
from django.core.management import call_command
from django.db import connection, transaction

BATCH = 1000


def fill(tasks: int) -> None:
    """Add ``tasks`` tasks in the fastest way that the backend has, then refresh the statistics."""
    from harness.benchmarks.peers.programs.django_tasks import nothing

    call_command("migrate", verbosity=0)
    for done in range(0, tasks, BATCH):
        with transaction.atomic():
            enqueue(nothing, min(BATCH, tasks - done))
    for table in connection.introspection.table_names():
        analyze(table)


def enqueue(task: Any, tasks: int) -> None:
    """Each peer has a name of its own for many at once; django-tasks-db has none."""
    backend = task.get_backend()
    match os.environ["PEER"]:
        case "django-ox":
            backend.enqueue_many(task, [((), {})] * tasks)
        case "dj-queue":
            backend.enqueue_all([(task, (), {})] * tasks)
        case _:
            for _ in range(tasks):
                task.enqueue()


def analyze(table: str) -> None:
    """Refresh the statistics, as a server does after a while of use."""
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute(f"ANALYZE TABLE `{table}`")
            cursor.fetchall()
        else:
            cursor.execute(f'ANALYZE "{table}"')


if __name__ == "__main__":
    django.setup()
    fill(int(sys.argv[1]))
