"""A worker thread to which a test gives the runs, and what a handler finds in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from threading import Semaphore
from typing import Any, cast

from django.db import connections

from django_delayed_tasks import clock
from django_delayed_tasks.executor.room.lines import Batch
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.executor.running.run_queue import RunQueue
from django_delayed_tasks.executor.running.worker import Performer
from django_delayed_tasks.executor.threads.crew import Crew, Jobs
from harness.torture.misuse import kept
from tests.executor.parts import Bench, claim


def fresh(alias: str) -> dict[str, Any]:
    """Return what a new connection has, after its first query."""
    connection = connections[alias]
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchall()
    names = (
        "in_atomic_block", "atomic_blocks", "savepoint_ids", "needs_rollback", "autocommit", "closed_in_transaction",
        "run_on_commit", "run_commit_hooks_on_set_autocommit_on", "execute_wrappers", "force_debug_cursor",
        "errors_occurred", "allow_thread_sharing",
    )  # fmt: skip
    return {name: copy(getattr(connection, name)) for name in names} | {"queries": len(connection.queries_log)}


class Line(Jobs[CurrentRun]):
    """The queue of one worker."""

    def __init__(self) -> None:
        self._is_waiting = Semaphore(0)

    def put_alone(self, tasks: Batch) -> None:
        for task in tasks:
            self.put(CurrentRun([task], clock.monotonic()))

    def get(self, *args: Any, **kwargs: Any) -> CurrentRun | None:
        if self.empty():
            self._is_waiting.release()
        return super().get(*args, **kwargs)

    def run(self, batch: Batch) -> None:
        """Give this to the worker, and wait until it is done, with all that comes of it."""
        assert self._is_waiting.acquire(timeout=60)
        self.put(CurrentRun(batch, clock.monotonic()))
        assert self._is_waiting.acquire(timeout=60)
        self._is_waiting.release()


class OneWorker:
    """A worker thread; the test gives it the runs, and settles what they leave to the settler."""

    def __init__(self) -> None:
        self.bench = Bench(lease=1000.0)  # it is not renewed here
        self._line = Line()
        line = cast(RunQueue, self._line)
        performer = Performer(self.bench.options, self.bench.lease, self.bench.held, line, self.bench.clock)
        self._worker = Crew("worker", "default", self._line, performer.work, performer.fail_run, connects_first=True)
        self._worker.start()

    def run(self, count: int = 1) -> None:
        """Run what is due, up to ``count`` tasks in one call, and settle it."""
        assert self.bench.lease.executor is not None
        tasks = claim(self.bench.lease.executor, count)
        self.bench.held.add(tasks)
        self._line.run(tasks)
        self.bench.settle()

    def end(self) -> None:
        """End the thread."""
        self._worker.finish(60)


@contextmanager
def one_worker() -> Iterator[OneWorker]:
    worker = OneWorker()
    try:
        yield worker
    finally:
        worker.end()
        kept.clear()
