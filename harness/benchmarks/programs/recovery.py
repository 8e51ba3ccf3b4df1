"""``recovery TASKS SECONDS stays|returns``: of two executors one is killed ``SECONDS`` seconds after both began.

With "returns" it is started again at once, under its name.
"""

import json
import sys
import time
from contextlib import ExitStack
from typing import Any

import django

from harness.benchmarks.programs.fill import fill
from harness.benchmarks.programs.starttask import kill, starttask

CODE = "slow"
KILLED, SURVIVOR = "killed", "survivor"
LONGEST = 120.0


def recovery(tasks: int, seconds: float, returns: bool) -> dict[str, Any]:
    """Return how many tasks the killed one held, and the seconds until the last of them ended elsewhere."""
    fill(tasks, CODE)
    with ExitStack() as running:
        victim = running.enter_context(starttask("--name", KILLED))
        running.enter_context(starttask("--name", SURVIVOR))
        time.sleep(seconds)
        kill(victim)
        began, held = _now(), _held_by(_killed_one())
        if returns:
            running.enter_context(starttask("--name", KILLED))
        last = _last_end_of(held)
    return {"held": len(held), "seconds": (last - began).total_seconds()}


def _now() -> Any:
    """Return the time by the database's clock."""
    from django.db import connection

    from django_delayed_tasks.store.sql.dialects import dialect_of

    dialect = dialect_of(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {dialect.now}")
        return dialect.to_datetime(cursor.fetchone()[0])


def _killed_one() -> int:
    from django_delayed_tasks.models import Executor

    return int(Executor.objects.filter(name=KILLED).latest("started_at").pk)


def _held_by(executor: int) -> set[int]:
    """The tasks of its claims."""
    from django_delayed_tasks import Task
    from django_delayed_tasks.states import TaskStatus

    held = set(Task.objects.filter(status=TaskStatus.RUNNING, executor=executor).values_list("id", flat=True))
    if not held:
        raise RuntimeError("the killed executor held no task")
    return held


def _last_end_of(held: set[int]) -> Any:
    """Return when the last of these tasks was done."""
    from django_delayed_tasks import TaskRun
    from django_delayed_tasks.states import RunOutcome

    patient_until = time.monotonic() + LONGEST
    while time.monotonic() < patient_until:
        done = TaskRun.objects.filter(task_id__in=held, outcome=RunOutcome.DONE)
        ends = dict(done.values_list("task_id", "finished"))
        if held <= ends.keys():
            return max(ends.values())
        time.sleep(0.2)
    raise RuntimeError(f"{len(held)} tasks of the killed executor have not all ended")


if __name__ == "__main__":
    django.setup()
    tasks, seconds, what = sys.argv[1:]
    print(json.dumps(recovery(int(tasks), float(seconds), what == "returns")))
