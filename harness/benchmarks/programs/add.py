"""Add tasks, an hour ahead: ``add SUBJECT WAY TASKS``. Prints the seconds that it took.

SUBJECT is "product" or "raw"; WAY is "alone" (each in its own transaction), "together" (all in one) or "bulk" (500 in a
statement). The Task objects, or the rows, are there before.
"""

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import django
from django.conf import settings
from django.db import connection, transaction

LATER = timedelta(hours=1)
BATCH = 500
CODE = "nothing"


def data_of(number: int) -> dict[str, Any]:
    """What a task is about."""
    return {"order": number, "reason": "not paid"}


def product(way: str, tasks: int) -> Callable[[], object]:
    """Through the public calls."""
    from django_delayed_tasks import Task, add_task, add_tasks

    when = datetime.now(UTC) + LATER
    made = [Task(biz_code=CODE, biz_num=str(i), when=when, biz_ext=data_of(i)) for i in range(tasks)]

    def alone() -> None:
        for task in made:
            add_task(task)

    def together() -> None:
        with transaction.atomic():
            alone()

    connection.ensure_connection()
    return {"alone": alone, "together": together, "bulk": lambda: add_tasks(made, batch_size=BATCH)}[way]


def raw(way: str, tasks: int) -> Callable[[], object]:
    """Through the driver."""
    from django_delayed_tasks import Task
    from harness.benchmarks.floors.inserts import Table, row_of

    table = Table(settings.DATABASES["default"], Task._meta.db_table)

    when = datetime.now(UTC) + LATER
    made = [row_of(CODE, str(number), data_of(number), when) for number in range(tasks)]

    def alone() -> None:
        for row in made:
            table.add(row)

    def together() -> None:
        table.begin()
        alone()
        table.commit()

    def bulk() -> None:
        for start in range(0, tasks, BATCH):
            table.add_all(made[start : start + BATCH])

    return {"alone": alone, "together": together, "bulk": bulk}[way]


def main(subject: str, way: str, tasks: int) -> float:
    """Seconds, on an empty table."""
    from django_delayed_tasks import Task
    from harness.benchmarks.stock import empty

    empty(Task._meta.db_table)
    work = {"product": product, "raw": raw}[subject](way, tasks)
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    if (there := Task.objects.count()) != tasks:
        raise RuntimeError(f"{there} of {tasks} tasks were added")
    return seconds


if __name__ == "__main__":
    django.setup()
    subject, way, tasks = sys.argv[1:]
    print(json.dumps(main(subject, way, int(tasks))))
