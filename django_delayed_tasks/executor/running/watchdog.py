"""The watchdog: when a run takes longer than its handler allows, it ends the claim and replaces the lost thread.

A run on the event loop is cancelled then, and also when its claim is lost.

When no thread is free for a moment, it also releases the tasks that wait for one.
"""

from datetime import timedelta

from django_delayed_tasks.clock import DatabaseClock, monotonic
from django_delayed_tasks.exceptions import TaskTimeout
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.running.awaited_runs import AwaitedRuns
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.executor.running.deciding import RaisedError
from django_delayed_tasks.executor.running.run import failed
from django_delayed_tasks.executor.running.run_queue import RunQueue
from django_delayed_tasks.executor.threads.crew import Crew
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, lose
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


def limit_of(task: ClaimedTask) -> float | None:
    """Return how many seconds a run of this task may take; None for no limit."""
    handler = find(task.biz_code)
    return handler.timeout_seconds if handler else None


def is_overdue(running: CurrentRun) -> bool:
    """Return whether a run has taken longer than its handler allows.

    Also one that has handed over how its tasks ended, and takes longer than that for what comes after.
    """
    limit = limit_of(running.all_tasks[0])
    return limit is not None and running.seconds > limit


class Watchdog:
    """Watches current runs, and the queue of those that wait for a thread; :meth:`tick` is one iteration."""

    def __init__(
        self, workers: Crew[CurrentRun], awaited: AwaitedRuns, queue: RunQueue, held: Held, clock: DatabaseClock
    ) -> None:
        self._workers = workers
        self._awaited = awaited
        self._queue = queue
        self._held = held
        self._clock = clock

    def tick(self) -> None:
        """Check every current run once, and whether the queue moves."""
        for thread, running in self._workers.busy():
            if not is_overdue(running) or not self._workers.give_up(thread, running):
                continue
            if running.abandon():
                settle_abandoned(running, self._held, self._clock, f"its thread {thread.name} is given up")
            else:
                logger.warning("%s has ended, but its thread %s hangs and is given up", running, thread.name)
        for running in filter(is_overdue, self._awaited.current()):
            if running.abandon() and (error := settle_abandoned(running, self._held, self._clock, "it is cancelled")):
                self._awaited.cancel(running, error)
        self._awaited.watch()
        self._workers.start()
        self._held.release(self._queue.take_back_stalled(1.0))  # other executors could run them


def settle_abandoned(running: CurrentRun, held: Held, clock: DatabaseClock, measure: str) -> TaskTimeout | None:
    """Settle the tasks of an abandoned run; return the error that they end with."""
    handler = find(running.tasks[0].biz_code)
    if handler is None:
        return None
    limit = handler.timeout_seconds or 0.0
    logger.warning("%s took longer than %g s; %s", running.tasks[0], limit, measure)
    error = TaskTimeout(f"the run took longer than {limit:g} s")
    raised = RaisedError(error, f"TaskTimeout: {error}")
    finished = clock.now()
    seconds = monotonic() - running.began
    started = finished - timedelta(seconds=seconds)
    for task in running.tasks:
        lose(task)
    settlements = [failed(task, handler, raised, started, finished) for task in running.tasks]
    held.end([task.claim for task in running.tasks], settlements, seconds)
    return error
