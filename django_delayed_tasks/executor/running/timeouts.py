"""The watchdog: when a run takes longer than its handler allows, it ends the claim and replaces the lost thread."""

import logging
from collections.abc import Callable
from datetime import timedelta

from django_delayed_tasks.clock import DatabaseClock, monotonic
from django_delayed_tasks.exceptions import TaskTimeout
from django_delayed_tasks.executor.running.deciding import Raised
from django_delayed_tasks.executor.running.runner import failed
from django_delayed_tasks.executor.running.workers import Running, Worker, WorkerPool
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement

logger = logging.getLogger(__name__)


def limit_of(task: ClaimedTask) -> float | None:
    """Return how many seconds a run of this task may take; None for no limit."""
    handler = find(task.biz_code)
    return handler.timeout_seconds if handler else None


class Watchdog:
    """Watches the runs of a pool; ``give_up(running, settlements)`` ends the claims of a run that took too long."""

    def __init__(
        self, pool: WorkerPool, clock: DatabaseClock, give_up: Callable[[Running, list[Settlement]], None]
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._give_up = give_up

    def tick(self) -> None:
        """Check every current run once."""
        for worker, running in self._pool.overdue(limit_of):
            if self._pool.abandon(worker, running):
                self._take(worker, running)
        self._pool.replace_lost()

    def _take(self, worker: Worker, running: Running) -> None:
        handler = find(running.tasks[0].biz_code) if running.tasks else None  # none are left if just handed over
        if handler is None:
            return
        limit = handler.timeout_seconds or 0.0
        logger.error("%s took longer than %g s; its thread %s is given up", running.tasks[0], limit, worker.name)
        error = TaskTimeout(f"the run took longer than {limit:g} s")
        raised = Raised(error, f"TaskTimeout: {error}")
        finished = self._clock.now()
        started = finished - timedelta(seconds=monotonic() - running.began)
        self._give_up(running, [failed(task, handler, raised, started, finished) for task in running.tasks])
