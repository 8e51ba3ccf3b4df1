"""Adds the tasks whose lateness is measured: ``late_add ahead TASKS SPREAD LOAD`` or ``late_add at_once TASKS SPREAD``,
after ``late_add clear``.

"ahead" adds all of them, due at random moments of SPREAD seconds that begin in two, and LOAD tasks more for each
second; "at_once" adds each at such a moment, due at once, and prints the wall clock after each commit.
"""

import json
import random
import sys
import time
from datetime import UTC, datetime

import django
from django.db import transaction

from harness.benchmarks.programs.fill import analyze, empty
from harness.benchmarks.programs.late import handlers

SOON = 2.0


def moments(tasks: int, spread: float) -> list[float]:
    """Seconds from now, the same in every run."""
    chance = random.Random(tasks)
    return sorted(SOON + chance.uniform(0, spread) for _ in range(tasks))


def ahead(tasks: int, spread: float, load: int) -> list[float]:
    """Add all at once."""
    from django_delayed_tasks import Task, add_tasks

    now = time.time()

    def due(code: str, count: int) -> list[Task]:
        whens = [datetime.fromtimestamp(now + moment, UTC) for moment in moments(count, spread)] if count else []
        return [Task(biz_code=code, biz_num=str(number), when=when) for number, when in enumerate(whens)]

    add_tasks(due("late", tasks) + due("busy", int(load * spread)))
    return []


def at_once(tasks: int, spread: float) -> list[float]:
    """Add one after the other; return when each was committed."""
    from django_delayed_tasks import Task, add_task

    committed: list[float] = []
    began = time.time()
    for number, moment in enumerate(moments(tasks, spread)):
        time.sleep(max(0.0, began + moment - time.time()))
        with transaction.atomic():
            transaction.on_commit(lambda: committed.append(time.time()))  # before what add_task does then
            add_task(Task(biz_code="late", biz_num=str(number)))
    return committed


def clear() -> None:
    """Delete all rows and refresh the statistics."""
    from django.core.management import call_command

    from django_delayed_tasks import Task, TaskRun

    call_command("migrate", verbosity=0)
    for model in (Task, TaskRun):
        empty(model._meta.db_table)
        analyze(model._meta.db_table)


def main(word: str, *numbers: str) -> None:
    handlers(lambda start: None)
    if word == "clear":
        clear()
        print(json.dumps([]))
        return
    tasks, spread, *load = numbers
    committed = ahead(int(tasks), float(spread), int(*load)) if word == "ahead" else at_once(int(tasks), float(spread))
    print(json.dumps(committed))


if __name__ == "__main__":
    django.setup()
    main(*sys.argv[1:])
