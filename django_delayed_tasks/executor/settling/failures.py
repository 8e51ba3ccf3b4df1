"""Reports how runs ended, once that is committed: to the log, and failures to ``on_failed`` and ``task_failed``."""

import logging
from queue import SimpleQueue
from threading import Thread

from django_delayed_tasks import clock, signals
from django_delayed_tasks.executor.settling.run_log import RunLog, log_end
from django_delayed_tasks.executor.threads import connections
from django_delayed_tasks.executor.threads.contexts import in_clean_context
from django_delayed_tasks.handlers import find, takes_exception
from django_delayed_tasks.states import Then
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement, is_final_failure

logger = logging.getLogger(__name__)

Failure = tuple[ClaimedTask, str, BaseException | None]
"""The task, the text of the error, and the exception if there was one."""


def report_here(task: ClaimedTask, settlement: Settlement, then: Then) -> None:
    """Report a committed end in this thread, which is that of the run."""
    log_end(task, settlement, then)
    if is_final_failure(settlement.outcome, then):
        tell_failed(task, settlement.error, settlement.exception)


def tell_failed(task: ClaimedTask, error: str, exception: BaseException | None = None) -> None:
    """Send ``task_failed`` and call ``on_failed``; log what they raise."""
    in_clean_context(_tell, task, error, exception)


def _tell(task: ClaimedTask, error: str, exception: BaseException | None) -> None:
    handler = find(task.biz_code)
    try:
        signals.task_failed.send_robust(sender=type(handler), task=task, error=error, exception=exception)
        if handler and takes_exception(handler.on_failed):
            handler.on_failed(task, error, exception=exception)  # type: ignore[call-arg]
        elif handler:
            handler.on_failed(task, error)
    except BaseException:  # even SystemExit: it must end neither this thread nor the run's settlement
        logger.exception("%s: on_failed raised", task)


class Failures:
    """A thread that reports failures: hooks are a project's code and must not hold up the settler or the reaper.

    Attributes:
        log: the log of runs, which has a thread of its own, so that a hook that hangs does not hold it up.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self.log = RunLog(alias)
        self._queue: SimpleQueue[Failure | None] = SimpleQueue()
        self._told: ClaimedTask | None = None
        self._thread = Thread(target=self._loop, name="failures", daemon=True)

    def start(self) -> None:
        """Start the threads."""
        self.log.start()
        self._thread.start()

    def report(self, task: ClaimedTask, settlement: Settlement, then: Then) -> None:
        """Report a committed end soon: in the log, and to the hooks if it is a final failure."""
        self.log.put(task, settlement, then)
        if is_final_failure(settlement.outcome, then):
            self.put(task, settlement.error, settlement.exception)

    def put(self, task: ClaimedTask, error: str, exception: BaseException | None = None) -> None:
        """Report this failure to the hooks soon."""
        self._queue.put((task, error, exception))

    def finish(self, timeout: float) -> None:
        """Report what is left and end, within ``timeout`` seconds; log what is not reported by then."""
        deadline = clock.monotonic() + timeout
        self._queue.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            logger.error(
                "%s: its failure is still being reported; %d more are not", self._told, self._queue.qsize() - 1
            )
        self.log.finish(max(0.0, deadline - clock.monotonic()))

    def _loop(self) -> None:
        with connections.of_thread(self._alias):
            own = connections.OfThread()
            while (failure := self._queue.get()) is not None:
                self._told = failure[0]
                tell_failed(*failure)
                own.tidy()
