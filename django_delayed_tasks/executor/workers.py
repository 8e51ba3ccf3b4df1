"""The threads that run tasks, and the bounded local queue before them."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread

from django_delayed_tasks import clock
from django_delayed_tasks.executor import connections
from django_delayed_tasks.store import ClaimedTask

logger = logging.getLogger(__name__)

IDLE = 2.0
"""Seconds after which an idle thread looks whether its connections still work."""


@dataclass(slots=True, eq=False)
class Running:
    """A run that is going on in a worker; ``began`` by the monotonic clock."""

    task: ClaimedTask
    began: float
    is_abandoned: bool = False


class Worker(Thread):
    """Takes one task after the other until it is told to end, or its run is given up as lost."""

    def __init__(self, pool: "WorkerPool", number: int) -> None:
        super().__init__(name=f"worker-{number}", daemon=True)
        self._pool = pool
        self.running: Running | None = None

    def run(self) -> None:
        with connections.of_thread(self._pool.alias):
            last, losses = clock.monotonic(), connections.losses
            while (task := self._pool.queue.get()) is not None:
                self._pool.last_taken = clock.monotonic()
                if self._pool.last_taken - last > IDLE or connections.losses != losses:
                    losses = connections.losses
                    connections.refresh()
                self.running = running = Running(task, clock.monotonic())
                try:
                    self._pool.perform(running)
                except BaseException:
                    logger.exception("running %s", task)
                self.running = None
                connections.tidy()
                last = clock.monotonic()
                if running.is_abandoned:
                    return


class WorkerPool:
    """A fixed number of working threads; a lost one is replaced.

    ``perform(running)`` runs one task; it is called in a worker's thread.
    """

    def __init__(self, alias: str, size: int, perform: Callable[[Running], None]) -> None:
        self.alias = alias
        self.size = size
        self.perform = perform
        self.queue: SimpleQueue[ClaimedTask | None] = SimpleQueue()
        self.lost: list[Worker] = []
        self.last_taken = clock.monotonic()
        self._finishing = False
        self._workers: list[Worker] = []
        self._lock = Lock()
        self._number = 0

    def start(self) -> None:
        """Start all threads."""
        with self._lock:
            while len(self._workers) < self.size:
                self._add_worker()

    def _add_worker(self) -> None:
        self._number += 1
        worker = Worker(self, self._number)
        self._workers.append(worker)
        worker.start()

    def put(self, tasks: Iterable[ClaimedTask]) -> None:
        """Queue claimed tasks."""
        for task in tasks:
            self.queue.put(task)

    def take_back(self) -> list[ClaimedTask]:
        """Empty the queue: these will not be started."""
        taken: list[ClaimedTask] = []
        while True:
            try:
                task = self.queue.get_nowait()
            except Empty:
                return taken
            if task is not None:
                taken.append(task)

    def take_back_stalled(self, seconds: float) -> list[ClaimedTask]:
        """What waits behind runs that take long: nothing was started for so many seconds, others could run these."""
        with self._lock:
            # Once it is finishing, the queue holds what tells the workers to end.
            if self._finishing or self.queue.empty() or clock.monotonic() - self.last_taken < seconds:
                return []
            return self.take_back()

    def overdue(self, limit_of: Callable[[ClaimedTask], float | None]) -> list[tuple[Worker, Running]]:
        """Runs that take longer than ``limit_of(task)`` seconds."""
        now, found = clock.monotonic(), []
        for worker in list(self._workers):
            running = worker.running
            limit = limit_of(running.task) if running else None
            if running and limit is not None and now - running.began > limit:
                found.append((worker, running))
        return found

    def abandon(self, worker: Worker, running: Running) -> None:
        """Give this worker up for lost, and start another in its place."""
        with self._lock:
            running.is_abandoned = True
            if worker in self._workers:
                self._workers.remove(worker)
                self.lost.append(worker)
                self._add_worker()

    def count_lost(self) -> int:
        """Abandoned threads that still hang."""
        self.lost = [worker for worker in self.lost if worker.is_alive()]
        return len(self.lost)

    def finish(self, timeout: float) -> bool:
        """Let runs that are going on end; False if some have not after ``timeout`` seconds."""
        deadline = clock.monotonic() + timeout
        with self._lock:
            self._finishing = True
            workers = list(self._workers)
        for _ in workers:
            self.queue.put(None)
        for worker in workers:
            worker.join(max(0.0, deadline - clock.monotonic()))
        return not any(worker.is_alive() for worker in workers)
