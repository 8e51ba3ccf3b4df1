"""Tells handlers and receivers of ``task_failed`` about tasks that became FAILED, once that is committed."""

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
    """Call ``on_failed`` and send ``task_failed``; what they raise is logged."""
    in_clean_context(_tell, task, error)


def _tell(task: ClaimedTask, error: str) -> None:
    handler = find(task.biz_code)
    try:
        signals.task_failed.send_robust(sender=type(handler), task=task, error=error)
        if handler:
            handler.on_failed(task, error)
    except BaseException:  # SystemExit included: this thread and what is settled must outlive it
        logger.exception("%s: on_failed raised", task)


class Failures:
    """A thread that does it: hooks are a user's code, and must not hold up the settler or the reaper."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._queue: SimpleQueue[tuple[ClaimedTask, str] | None] = SimpleQueue()
        self._told: ClaimedTask | None = None
        self._thread = Thread(target=self._loop, name="failures", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def put(self, task: ClaimedTask, error: str) -> None:
        """Tell of this one soon."""
        self._queue.put((task, error))

    def finish(self, timeout: float) -> None:
        """Tell of what is left and end, within ``timeout`` seconds; what is not told by then is logged."""
        self._queue.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            logger.error("%s: its failure is still being told; %d more are not", self._told, self._queue.qsize() - 1)

    def _loop(self) -> None:
        with connections.of_thread(self._alias):
            own = connections.OfThread()
            while (failure := self._queue.get()) is not None:
                self._told = failure[0]
                tell_failed(*failure)
                own.tidy()
