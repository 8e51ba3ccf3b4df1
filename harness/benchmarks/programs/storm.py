"""Many tasks that become due within one second: ``storm TASKS OTHERS SPREAD``, the last in seconds.

``OTHERS`` other tasks wait in a queue of their own, and become due one after the other over ``SPREAD`` seconds.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import django

from harness.benchmarks.programs.fill import analyze, fill
from harness.benchmarks.programs.starttask import starttask

EXECUTORS = 2
ADDED_PER_SECOND = 4_000
"""Fewer than are added on a slow machine: all must be there before the first is due."""
STARTING = (8.0, 30.0, 90.0)
"""Seconds for executors to start and to become idle: if that takes longer, the storm is begun again with the next."""
LONGEST = 300.0
BIN = 0.1
"""Seconds of one value of the series."""
CODE = "nothing"


def storm(tasks: int, others: int, spread: float) -> dict[str, Any]:
    """Return when the last task started, how late the others did, and how many tasks started in each ``BIN``."""
    for starting in STARTING:
        fill(0, CODE)
        begin = _add(tasks, others, spread, starting)
        with starttask("--processes", str(EXECUTORS), executors=EXECUTORS):
            if datetime.now(begin.tzinfo) <= begin - timedelta(seconds=1):
                _wait_until_none_is_left()
                return _measured(tasks, others, begin)
    raise RuntimeError("the executors were not idle when the storm began")


def _add(tasks: int, others: int, spread: float, starting: float) -> datetime:
    from django.utils import timezone

    from django_delayed_tasks import Task, add_tasks

    begin = timezone.now() + timedelta(seconds=starting + tasks / ADDED_PER_SECOND)

    def rows() -> Iterator[Task]:
        for number in range(tasks):
            yield Task(biz_code=CODE, biz_num=f"storm {number}", when=begin + timedelta(seconds=number / tasks))
        for number in range(others):
            moment = begin + timedelta(seconds=(number + 0.5) / others * spread)
            yield Task(biz_code=CODE, biz_num=f"other {number}", when=moment, queue="other")

    adding = rows()
    while some := list(islice(adding, 10_000)):
        add_tasks(some, batch_size=2000)
    analyze(Task._meta.db_table)
    return begin


def _wait_until_none_is_left() -> None:
    from django_delayed_tasks import Task

    patient_until = time.monotonic() + LONGEST
    while Task.objects.exists():
        if time.monotonic() > patient_until:
            raise RuntimeError(f"{Task.objects.count()} tasks are left")
        time.sleep(0.5)


def _measured(tasks: int, others: int, begin: datetime) -> dict[str, Any]:
    from django_delayed_tasks import TaskRun

    offsets, lateness = [], []
    runs = TaskRun.objects.filter(started__isnull=False).values_list("biz_num", "when", "started")
    for number, when, started in runs.iterator():
        assert started
        if number.startswith("storm"):
            offsets.append((started - begin).total_seconds())
        else:
            lateness.append((started - when).total_seconds())
    if (len(offsets), len(lateness)) != (tasks, others):
        raise RuntimeError(f"{tasks} and {others} tasks, but {len(offsets)} and {len(lateness)} runs")
    counts = Counter(int(offset // BIN) for offset in offsets)
    return {"last": max(offsets), "late": sorted(lateness), "bin": BIN, "started": _series(counts)}


def _series(counts: Counter[int]) -> list[int]:
    return [counts[number] for number in range(max(counts) + 1)]


if __name__ == "__main__":
    django.setup()
    print(json.dumps(storm(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))))
