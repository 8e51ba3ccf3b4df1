"""Reports tasks that became FAILED to ``on_failed`` and to receivers of ``task_failed``, once that is committed."""

import logging
from queue import SimpleQueue
from threading import Thread

from django_delayed_tasks import signals
from django_delayed_tasks.executor.threads import connections
from django_delayed_tasks.executor.threads.contexts import in_clean_context
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

logger = logging.getLogger(__name__)


def tell_failed(task: ClaimedTask, error: str) -> None:
    """Send ``task_failed`` and call ``on_failed``; log what they raise."""
    in_clean_context(_tell, task, error)


def _tell(task: ClaimedTask, error: str) -> None:
    handler = find(task.biz_code)
    try:
        signals.task_failed.send_robust(sender=type(handler), task=task, error=error)
        if handler:
            handler.on_failed(task, error)
    except BaseException:  # even SystemExit: it must end neither this thread nor the run's settlement
        logger.exception("%s: on_failed raised", task)


class Failures:
    """A thread that reports failures: hooks are a project's code and must not hold up the settler or the reaper."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._queue: SimpleQueue[tuple[ClaimedTask, str] | None] = SimpleQueue()
        self._told: ClaimedTask | None = None
        self._thread = Thread(target=self._loop, name="failures", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, task: ClaimedTask, error: str) -> None:
        """Report this failure soon."""
        self._queue.put((task, error))

    def finish(self, timeout: float) -> None:
        """Report what is left and end, within ``timeout`` seconds; log what is not reported by then."""
        self._queue.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            logger.error(
                "%s: its failure is still being reported; %d more are not", self._told, self._queue.qsize() - 1
            )

    def _loop(self) -> None:
        with connections.of_thread(self._alias):
            own = connections.OfThread()
            while (failure := self._queue.get()) is not None:
                self._told = failure[0]
                tell_failed(*failure)
                own.tidy()
