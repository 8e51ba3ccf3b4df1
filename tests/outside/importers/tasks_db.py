"""Rows of django-tasks-db: its own model says what its worker would call, and when."""

import logging
import random
from datetime import timedelta
from itertools import product
from typing import Any

from django.forms import model_to_dict

from tests.outside.importers.common import BACKEND, NOW, Verdicts, call_of, configure, imported, starts_of

PATHS = ("tests.outside.importers.functions.send", "math.hypot", "gone.away")
STATUSES = ("READY", "RUNNING", "SUCCESSFUL", "FAILED")
BACKENDS = ("default", "old", "gone")
ARGS: tuple[list[Any], ...] = ([], [7, "é", None, [1, {"a": 2}]], ["NUL \0"], [2**64])
QUEUES = ("default", "mail", "other")


def make(path: str, status: str, backend: str, chance: random.Random) -> Any:
    from django_tasks_db.models import DBTaskResult, get_date_max

    after = NOW + timedelta(seconds=chance.choice((-86400, -1, 0, 5, 86400)))
    row = DBTaskResult.objects.create(
        task_path=path,
        status=status,
        backend_name=backend,
        args_kwargs={"args": chance.choice(ARGS), "kwargs": chance.choice(({}, {"full": True}))},
        priority=chance.choice((-100, 0, 7, 100)),
        queue_name=chance.choice(QUEUES),
        run_after=chance.choice((get_date_max(), after)),
    )
    row.refresh_from_db()
    return row


def theirs_of(row: Any) -> list[Any]:
    """Return the call, the queue, the priority and the start; nothing if a worker would not run it."""
    if row.status != "READY" or row.backend_name == "gone" or row.task_path != PATHS[0]:
        return []
    task = row.task
    start = max(NOW, task.run_after or NOW)
    return [*row.args_kwargs.values(), task.queue_name, task.priority, [start]]


def main() -> None:
    old = {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": []}
    configure("django_tasks_db", TASKS={"default": BACKEND, "old": old})
    logging.disable(logging.CRITICAL)
    from django_tasks_db.models import DBTaskResult

    from django_delayed_tasks import Task

    chance = random.Random(1)
    rows = [make(*kinds, chance) for kinds in 5 * [*product(PATHS, STATUSES, BACKENDS)]]
    imported("django-tasks-db", "--dry-run")
    assert (DBTaskResult.objects.count(), Task.objects.count()) == (len(rows), 0)
    said = imported("django-tasks-db")
    tasks = {task.biz_num: task for task in Task.objects.all()}
    kept = {row.pk: row for row in DBTaskResult.objects.all()}
    verdicts = Verdicts()
    for row in rows:
        stays = row.pk in kept and model_to_dict(kept[row.pk]) == model_to_dict(row)
        if row.status in ("SUCCESSFUL", "FAILED"):
            assert stays, model_to_dict(row)
            continue
        task = tasks.get(str(row.pk))
        theirs = theirs_of(row) if task else []
        ours = [*call_of(task), task.priority, starts_of(task)] if task else []
        if row.run_after.year == 9999:
            theirs, ours = theirs[:-1], ours[:-1]  # at once: by the database's clock
        verdicts.judge(row.status, model_to_dict(row), said[f"{row.pk} ({row.task_path})"], theirs, ours, stays)
    verdicts.all_kinds_moved(["READY"])
    assert not verdicts.counts["RUNNING", True]
    assert not any(words.startswith("moved") for words in imported("django-tasks-db").values())
    print(sorted(verdicts.counts.items()))


if __name__ == "__main__":
    main()
