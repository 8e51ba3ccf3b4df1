"""Claims of an executor while it drains tasks, with the purge held back or free: ``pinned WORD TASKS``.

WORD is "pinned" (a transaction keeps the snapshot from before the first task was done) or "free". Prints the quantiles
of the time that claims and agendas took, in milliseconds.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import timedelta
from functools import wraps
from typing import Any

import django
from django.db import connection, connections

SNAPSHOT = {
    "mysql": ("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"),
    "postgresql": ("BEGIN ISOLATION LEVEL REPEATABLE READ",),
    "sqlite": ("BEGIN",),
}
BATCH = 1000


@contextmanager
def old_snapshot() -> Iterator[None]:
    """Keep a transaction open whose snapshot has the tasks as they are now."""
    from django_delayed_tasks import Task

    with closing(connections.create_connection("default")) as other, other.cursor() as cursor:
        for statement in (*SNAPSHOT[connection.vendor], f"SELECT COUNT(*) FROM {Task._meta.db_table}"):
            cursor.execute(statement)
        cursor.fetchall()
        yield


def timing(call: Callable[..., Any], times: list[float]) -> Callable[..., Any]:
    """The same call; its milliseconds are noted."""

    @wraps(call)
    def timed(*given: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return call(*given, **named)
        finally:
            times.append(1000 * (time.perf_counter() - began))

    return timed


def add_due(tasks: int) -> None:
    """Add ``tasks`` due tasks, and one for later, as there always is."""
    from django_delayed_tasks import Task, add_task, add_tasks

    add_task(Task(biz_code="nothing", biz_num="later", when=timedelta(days=1)))
    due = (Task(biz_code="nothing", biz_num=str(number), when=timedelta(seconds=-1)) for number in range(tasks))
    add_tasks(due, batch_size=BATCH)


def main(word: str, tasks: int) -> dict[str, float]:
    """Drain, with everything else that an executor does: the history, which is old, is purged meanwhile."""
    from django_delayed_tasks.executor.claiming import agenda_reader
    from django_delayed_tasks.store.claiming.agenda import read_agenda
    from django_delayed_tasks.store.claiming.looks import look
    from harness.benchmarks.programs.drain import drain, executor_with

    claims: list[float] = []
    agendas: list[float] = []
    add_due(tasks)
    executor = executor_with({})
    executor.poller._claim = timing(executor.poller._claim, claims)
    agenda_reader.read_agenda = timing(read_agenda, agendas)  # type: ignore[attr-defined]
    agenda_reader.look = timing(look, agendas)  # type: ignore[attr-defined]
    with old_snapshot() if word == "pinned" else nullcontext():
        settled = drain(executor)
        executor.stop()
    if settled != tasks:
        raise RuntimeError(f"{settled} of {tasks} tasks were settled")
    return {**quantiles("claim", claims), **quantiles("agenda", agendas), "claims": len(claims)}


def quantiles(what: str, times: list[float]) -> dict[str, float]:
    """The median and the 99th percentile."""
    return {f"{what} p50": statistics.median(times), f"{what} p99": statistics.quantiles(times, n=100)[98]}


if __name__ == "__main__":
    django.setup()
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
