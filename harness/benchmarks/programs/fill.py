"""Empty the tables and add tasks: ``fill TASKS CODE [SECONDS_FROM_NOW]``."""

import json
import sys
from datetime import timedelta
from itertools import islice

import django
from django.core.management import call_command
from django.db import connection


def fill(tasks: int, code: str, later: float = 0.0) -> None:
    """Add ``tasks`` tasks of one code, delete the history, refresh the statistics."""
    from django_delayed_tasks import Task, TaskRun, add_tasks

    call_command("migrate", verbosity=0)
    for model in (Task, TaskRun):
        empty(model._meta.db_table)
    when = timedelta(seconds=later)
    numbers = iter(Task(biz_code=code, biz_num=str(number), when=when) for number in range(tasks))
    while some := list(islice(numbers, 10_000)):
        add_tasks(some, batch_size=2000)
    analyze(Task._meta.db_table)


def empty(table: str) -> None:
    """Delete all rows, and their traces."""
    words = {"mysql": "TRUNCATE TABLE", "postgresql": "TRUNCATE"}.get(connection.vendor, "DELETE FROM")
    with connection.cursor() as cursor:
        cursor.execute(f"{words} {table}")


def analyze(table: str) -> None:
    """Statistics as they are after a while of use."""
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute(f"ANALYZE TABLE {table}")
            cursor.fetchall()
        else:
            cursor.execute(f"ANALYZE {table}")


if __name__ == "__main__":
    django.setup()
    tasks, code, *later = sys.argv[1:]
    fill(int(tasks), code, *map(float, later))
    print(json.dumps({"tasks": int(tasks)}))
