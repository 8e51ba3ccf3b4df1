"""One of several executors on one queue: ``contend EXECUTORS``.

It says that it is ready once it knows all the others, runs tasks until it is told a word, and prints what it won, what
it tried in vain, and what it sent to the database from its first claim on.
"""

import json
import sys
import time
from typing import Any

import django
from django.db import connections
from django.db.backends.signals import connection_created

from harness.benchmarks.counts import Counts

HEARTBEAT = 1.0
"""Seconds, fewer than by default: that often executors learn who else is there."""
PATIENCE = 60.0
"""Seconds until all should know each other."""


class Claims:
    """Wraps what claims, and counts."""

    def __init__(self, executor: Any) -> None:
        from django_delayed_tasks.store.claiming import compare_and_set

        self.won = self.lost = self.batches = self.empty = 0
        self._claim, executor.poller._claim = executor.poller._claim, self.claim
        self._take, compare_and_set.take = compare_and_set.take, self.take
        self.sent = Sent()

    def claim(self, alias: str, request: Any) -> list[Any]:
        """A claim of a level that the agenda calls due."""
        self.sent.begin()
        from django_delayed_tasks.store.claiming.request import Outpaced

        try:
            tasks: list[Any] = self._claim(alias, request)
        except Outpaced:
            self.empty += 1
            raise
        self.won += len(tasks)
        self.batches += bool(tasks)
        self.empty += not tasks
        return tasks

    def take(self, alias: str, dialect: Any, executor: int, chosen: list[Any]) -> list[Any]:
        """Compare-and-set: candidates that were read. (With SKIP LOCKED none is tried that is not won.)"""
        tasks = self._take(alias, dialect, executor, chosen)
        self.lost += len(chosen) - len(tasks)
        return tasks

    def result(self) -> dict[str, int]:
        """Return all that was counted."""
        sent = self.sent.total()
        counts = {name: getattr(self, name) for name in ("won", "lost", "batches", "empty")}
        return {**counts, "statements": sent.statements, "commits": sent.commits}


class Sent:
    """What all connections of this process send, each counted for itself, from :meth:`begin` on."""

    def __init__(self) -> None:
        self._before: Counts | None = None
        self._of_connection: list[Counts] = []
        connection_created.connect(self._watch)

    def _watch(self, connection: Any, **_: Any) -> None:
        if "_commit" in vars(connection):
            return  # it was opened again
        counts = Counts()
        counts.watch(connection)
        self._of_connection.append(counts)

    def begin(self) -> None:
        """Note the beginning; only the first call counts."""
        if self._before is None:
            self._before = self._sum()

    def _sum(self) -> Counts:
        found = list(self._of_connection)
        return Counts(statements=sum(one.statements for one in found), commits=sum(one.commits for one in found))

    def total(self) -> Counts:
        """Since the beginning."""
        now, before = self._sum(), self._before or self._sum()
        return Counts(statements=now.statements - before.statements, commits=now.commits - before.commits)


def main(executors: int) -> dict[str, int]:
    """Run one executor from its start to its end."""
    from django_delayed_tasks.executor.executor import Executor
    from django_delayed_tasks.executor.options import from_settings

    executor = Executor(from_settings(heartbeat=HEARTBEAT))
    claims = Claims(executor)
    executor.start()
    wait_for_others(executor, executors)
    print("ready", flush=True)
    sys.stdin.readline()
    executor.stop()
    return claims.result()


def wait_for_others(executor: Any, executors: int) -> None:
    """Wait until the executor counts ``executors`` live ones."""
    deadline = time.monotonic() + PATIENCE
    while executor.peers.executors != executors:
        if time.monotonic() > deadline:
            raise TimeoutError(f"knows {executor.peers.executors} instead of {executors}")
        time.sleep(0.01)


if __name__ == "__main__":
    django.setup()
    print(json.dumps(main(int(sys.argv[1]))))
    connections.close_all()
