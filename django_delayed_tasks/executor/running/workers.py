"""The worker threads that run tasks, and the local queue from which they take them."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread

from django_delayed_tasks import clock
from django_delayed_tasks.executor.threads import connections
from django_delayed_tasks.executor.threads.contexts import in_clean_context
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

logger = logging.getLogger(__name__)

IDLE = 2.0
"""Seconds after which an idle thread checks that its connections still work."""


@dataclass(slots=True, eq=False)
class Running:
    """A current run of one task, or of a batch, in a worker; ``began`` is a monotonic second."""

    tasks: list[ClaimedTask]
    began: float
    is_abandoned: bool = False


class Worker(Thread):
    """A thread that runs one task after the other until it is told to end or its run is abandoned."""

    def __init__(self, pool: "WorkerPool", number: int) -> None:
        super().__init__(name=f"worker-{number}", daemon=True)
        self._pool = pool
        self.running: Running | None = None
        self._last = 0.0
        self._losses = 0

    def run(self) -> None:
        with connections.of_thread(self._pool.alias):
            self._own = connections.OfThread()
            self._last, self._losses = clock.monotonic(), connections.losses
            while (tasks := self._pool.queue.get()) is not None:
                self.running = running = Running(tasks, clock.monotonic())
                try:
                    self._perform(running)
                except BaseException:
                    logger.exception("running %s failed", tasks[0])
                self.running = None
                if running.is_abandoned:
                    return

    def _perform(self, running: Running) -> None:
        self._pool.last_taken = running.began
        if running.began - self._last > IDLE or connections.losses != self._losses:
            self._losses = connections.losses
            connections.refresh()
        in_clean_context(self._pool.perform, running)
        self._own.tidy()
        self._last = clock.monotonic()


class WorkerPool:
    """A fixed number of worker threads; a lost one is replaced.

    ``perform(running)`` runs one task or a batch; it is called in a worker's thread.
    """

    def __init__(self, alias: str, size: int, perform: Callable[[Running], None]) -> None:
        self.alias = alias
        self.size = size
        self.perform = perform
        self.queue: SimpleQueue[list[ClaimedTask] | None] = SimpleQueue()
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
        worker.start()
        self._workers.append(worker)

    def put(self, batches: Iterable[list[ClaimedTask]]) -> None:
        """Queue claimed tasks, each list to be run in one call."""
        for tasks in batches:
            self.queue.put(tasks)

    def take_back(self) -> list[ClaimedTask]:
        """Remove and return all queued tasks: they will not be started."""
        taken: list[ClaimedTask] = []
        ends = 0
        while True:
            try:
                tasks = self.queue.get_nowait()
            except Empty:
                break
            if tasks is None:
                ends += 1
            else:
                taken += tasks
        for _ in range(ends):
            self.queue.put(None)
        return taken

    def take_back_stalled(self, seconds: float) -> list[ClaimedTask]:
        """Remove and return the queued tasks if no run has started for ``seconds``: other executors could run them."""
        with self._lock:
            # Once the pool is finishing, the queue holds the markers that tell the workers to end.
            if self._finishing or self.queue.empty() or clock.monotonic() - self.last_taken < seconds:
                return []
            return self.take_back()

    def overdue(self, limit_of: Callable[[ClaimedTask], float | None]) -> list[tuple[Worker, Running]]:
        """Return the workers and runs that have taken longer than ``limit_of(task)`` seconds."""
        now, found = clock.monotonic(), []
        for worker in list(self._workers):
            running = worker.running
            tasks = running.tasks if running else []  # empty once they are handed over
            limit = limit_of(tasks[0]) if tasks else None
            if running and limit is not None and now - running.began > limit:
                found.append((worker, running))
        return found

    def abandon(self, worker: Worker, running: Running) -> bool:
        """Give the worker up as lost; return False if its run has just ended."""
        with self._lock:
            if worker.running is not running or worker not in self._workers:
                return False
            running.is_abandoned = True
            self._workers.remove(worker)
            self.lost.append(worker)
            return True

    def hand_over(self, running: Running, tasks: list[ClaimedTask]) -> bool:
        """Take tasks out of a run, to be run by others; return False if the run was abandoned together with them."""
        with self._lock:
            if not running.is_abandoned:
                handed = set(tasks)
                running.tasks = [task for task in running.tasks if task not in handed]
            return not running.is_abandoned

    def replace_lost(self) -> None:
        """Start threads in place of lost ones."""
        with self._lock:
            while len(self._workers) < self.size and not self._finishing:
                self._add_worker()

    def count_lost(self) -> int:
        """Return the number of abandoned threads that still hang."""
        self.lost = [worker for worker in self.lost if worker.is_alive()]
        return len(self.lost)

    def finish(self, timeout: float) -> bool:
        """Wait for current runs to end; return False if some have not after ``timeout`` seconds."""
        deadline = clock.monotonic() + timeout
        with self._lock:
            self._finishing = True
            workers = list(self._workers)
        for _ in workers:
            self.queue.put(None)
        for worker in workers:
            worker.join(max(0.0, deadline - clock.monotonic()))
        return not any(worker.is_alive() for worker in workers)
