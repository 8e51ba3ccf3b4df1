"""Functions of django.tasks: ``functions fill NAME TASKS``; ``functions enqueue TASKS`` prints the seconds."""

import json
import sys
import time
from typing import Any

import django
from django.core.management import call_command
from django.db import connection

from harness.benchmarks.programs.fill import analyze, empty


def prepare() -> str:
    """Empty the tables; return the name of that of tasks."""
    from django_delayed_tasks import Task, TaskRun

    call_command("migrate", verbosity=0)
    for model in (Task, TaskRun):
        empty(model._meta.db_table)
    return Task._meta.db_table


def fill(name: str, tasks: int) -> int:
    """Enqueue a function many times, and refresh the statistics."""
    from harness.benchmarks import functions

    table = prepare()
    task: Any = getattr(functions, name)
    task.bulk_enqueue([((), {})] * tasks)
    analyze(table)
    return tasks


def enqueue(tasks: int) -> float:
    """Return the seconds that it takes to enqueue one by one, with a commit each."""
    from harness.benchmarks.functions import nothing

    prepare()
    connection.ensure_connection()
    began = time.perf_counter()
    for _ in range(tasks):
        nothing.enqueue()
    return time.perf_counter() - began


if __name__ == "__main__":
    django.setup()
    word, *rest = sys.argv[1:]
    print(json.dumps(fill(rest[0], int(rest[1])) if word == "fill" else enqueue(int(rest[0]))))
