"""One executor of 8 threads next to a backlog: ``limits WAY WAITING SECONDS NEIGHBORS``, one of WAYS.

``WAITING`` tasks of a limited code are due, and ``NEIGHBORS`` tasks of an unlimited code become due meanwhile. Prints
the runs of the backlog in ``SECONDS`` after a warm-up, the statements that were sent meanwhile, without those that
begin and end transactions, and how late the neighbors started, in seconds.
"""

import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import django
from django.db.backends.signals import connection_created

from harness.benchmarks.counts import OF_TRANSACTIONS
from harness.benchmarks.programs.late_add import clear

CODE, THREADS, WARM_UP, WORK, KEYS = "limited", 8, 1.0, 0.005, 1000
WAYS: dict[str, dict[str, Any]] = {
    "none": {},
    "slots": {"max_concurrent": 10},
    "keys": {"max_concurrent": 1, "concurrency_key": lambda self, task: task.biz_ext},
    "rate": {"rate": "500/s"},
    "many slots": {"max_concurrent": 1000},
    "unlimited": {},
}
LAST_NEIGHBOR = 60.0
"""Seconds."""
WITHOUT_WORK = ("many slots", "unlimited")


@dataclass
class Counter:
    """What has happened so far in this process."""

    statements: int = 0
    runs: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)

    def follow(self, connection: Any, **_: Any) -> None:
        """Count what this connection sends from now on."""
        if self._count not in connection.execute_wrappers:
            connection.execute_wrappers.append(self._count)

    def _count(self, execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: Any) -> Any:
        self.statements += not sql.startswith(OF_TRANSACTIONS)
        return execute(sql, parameters, many, context)


def register(way: str, counter: Counter) -> None:
    """Register the limited code and its neighbors' code."""
    from django_delayed_tasks import TaskHandler, register_task_handler

    def handle(self: TaskHandler, task: Any) -> None:
        counter.runs.append(time.time())
        if way not in WITHOUT_WORK:
            time.sleep(WORK)

    class Neighbor(TaskHandler):
        biz_code = "neighbor"

        def handle(self, task: Any) -> None:
            counter.late.append(time.time() - task.when.timestamp())

    register_task_handler(type("Limited", (TaskHandler,), {"biz_code": CODE, "handle": handle, **WAYS[way]}))
    register_task_handler(Neighbor)


def fill(way: str, waiting: int) -> None:
    """Add the backlog."""
    from harness.benchmarks import stock

    clear()
    if way != "none":
        stock.add_limited(0, -(-waiting // stock.PIECE) * stock.PIECE, CODE, keys=KEYS if way == "keys" else 0)
    if way == "unlimited":
        from django_delayed_tasks import Task

        Task._base_manager.update(lane="")
    stock.finish_writing()


def add_neighbors(count: int, seconds: float) -> None:
    """Add tasks that become due at random moments, the same in every run."""
    from django_delayed_tasks import Task, add_tasks

    chance, begin = random.Random(count), time.time() + WARM_UP
    moments = [datetime.fromtimestamp(begin + chance.uniform(0, seconds), UTC) for _ in range(count)]
    add_tasks(Task(biz_code="neighbor", biz_num=str(number), when=when) for number, when in enumerate(moments))


def wait_for_neighbors(counter: Counter, count: int) -> None:
    """Wait until all have started, those too that were due at the end, or until LAST_NEIGHBOR has passed."""
    deadline = time.monotonic() + LAST_NEIGHBOR
    while len(counter.late) < count and time.monotonic() < deadline:
        time.sleep(0.1)


def main(way: str, waiting: int, seconds: float, neighbors: int) -> dict[str, Any]:
    """Measure."""
    from django_delayed_tasks import Task
    from django_delayed_tasks.executor.executor import Executor
    from django_delayed_tasks.executor.options import from_settings

    counter = Counter()
    register(way, counter)
    fill(way, waiting)
    connection_created.connect(counter.follow)
    executor = Executor(from_settings(threads=THREADS))
    executor.start()
    add_neighbors(neighbors, seconds)
    time.sleep(WARM_UP)
    sent, ran, began = counter.statements, len(counter.runs), time.time()
    time.sleep(seconds)
    sent, ended = counter.statements - sent, time.time()
    if way != "none" and not Task.objects.filter(biz_code=CODE).exists():  # all of them have run
        ended = max(counter.runs, default=ended)
    ran, took = len(counter.runs) - ran, ended - began
    wait_for_neighbors(counter, neighbors)
    executor.stop()
    return {"runs": ran, "seconds": took, "statements": sent, "late": sorted(counter.late)}


if __name__ == "__main__":
    django.setup()
    word, *numbers = sys.argv[1:]
    print(json.dumps(main(word, int(numbers[0]), float(numbers[1]), int(numbers[2]))))
