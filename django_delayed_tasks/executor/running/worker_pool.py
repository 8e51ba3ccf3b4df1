"""The worker threads of an executor: a fixed number of them, of which lost ones are replaced."""

from collections.abc import Callable
from threading import Lock

from django_delayed_tasks import clock
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.executor.running.run_queue import RunQueue
from django_delayed_tasks.executor.running.worker import Performer, Worker
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask


class WorkerPool:
    """A fixed number of worker threads; a lost one is replaced."""

    def __init__(self, options: ExecutorOptions, queue: RunQueue, performer: Performer) -> None:
        self.alias = options.database
        self.size = options.threads
        self.queue = queue
        self.performer = performer
        self.lost: list[Worker] = []
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
        worker = Worker(self._number, self.alias, self.queue, self.performer)
        worker.start()
        self._workers.append(worker)

    def current(self) -> list[CurrentRun]:
        """Return the current runs."""
        runs = [worker.running for worker in list(self._workers)]
        return [running for running in runs if running and running.tasks]

    def overdue(self, limit_of: Callable[[ClaimedTask], float | None]) -> list[tuple[Worker, CurrentRun]]:
        """Return the workers and runs that have taken longer than ``limit_of(task)`` seconds.

        Also those whose workers have handed over how the tasks ended, and take longer than that for what comes after.
        """
        now, found = clock.monotonic(), []
        for worker in list(self._workers):
            if (running := worker.running) and (tasks := [*running.tasks, *running.handed_over]):
                limit = limit_of(tasks[0])
                if limit is not None and now - (running.handed_over_at or running.began) > limit:
                    found.append((worker, running))
        return found

    def abandon(self, worker: Worker, running: CurrentRun) -> bool:
        """Give the worker up as lost; return False if its run has just ended."""
        with self._lock:
            if worker.running is not running or worker not in self._workers or not running.abandon():
                return False
            self._workers.remove(worker)
            self.lost.append(worker)
            return True

    def replace_lost(self) -> None:
        """Start threads in place of lost ones."""
        with self._lock:
            while len(self._workers) < self.size and not self._finishing:
                self._add_worker()

    def count_lost(self) -> int:
        """Return the number of abandoned threads that still hang."""
        self.lost = [worker for worker in self.lost if worker.is_alive()]
        return len(self.lost)

    def finish(self, timeout: float) -> None:
        """Wait for current runs to end, but no longer than ``timeout`` seconds."""
        deadline = clock.monotonic() + timeout
        with self._lock:
            self._finishing = True
            workers = list(self._workers)
        self.queue.end(len(workers))
        for worker in workers:
            worker.join(max(0.0, deadline - clock.monotonic()))
