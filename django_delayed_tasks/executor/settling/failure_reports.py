"""Reports how runs ended, once that is committed: to the log, and failures to ``on_failed`` and ``task_failed``."""

from queue import Queue
from threading import Event, Lock, Thread
from typing import Final

from django_delayed_tasks import clock, signals
from django_delayed_tasks.executor.settling.run_log import RunLog, log_end
from django_delayed_tasks.executor.threads.contexts import in_clean_context
from django_delayed_tasks.executor.threads.loop import Backoff
from django_delayed_tasks.handlers import find, takes_exception
from django_delayed_tasks.handlers.functions import find_function
from django_delayed_tasks.states import Then
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement, is_final_failure
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.support.durations import plural
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

MOST_WAITING: Final = 10_000
"""Failures that wait for slow hooks; the hooks are not told of further ones."""
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
    # A function whose executor died may not be imported in the one that takes its task.
    handler = find(task.biz_code) or find_function(task)
    try:
        signals.task_failed.send_robust(sender=type(handler), task=task, error=error, exception=exception)
        if handler and takes_exception(handler.on_failed):
            handler.on_failed(task, error, exception=exception)  # type: ignore[call-arg]
        elif handler:
            handler.on_failed(task, error)
    except BaseException as error:  # even SystemExit: it must end neither this thread nor the run's settlement
        kept_connections.note_error(error)
        logger.exception("%s: on_failed raised", task)


class FailureReports:
    """Threads that report failures: hooks are a project's code and must not hold up the settler or the reaper.

    One thread reports at a time. If a hook hangs, :meth:`pass_over` lets another thread continue with the next failure.

    Attributes:
        log: the log of runs, which has a thread of its own, so that a hook that hangs does not hold it up.
    """

    def __init__(self, alias: str) -> None:
        self.log = RunLog(alias)
        self._alias = alias
        self._queue: Queue[Failure | None] = Queue()
        self._calls_to_finish = 0
        self._is_finishing = Event()
        self._thread = _Reporter(self._queue, alias, self._is_finishing)
        self._hanging: list[_Reporter] = []

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
        """Report this failure to the hooks soon; log that they are not told if too many failures wait."""
        if self._queue.qsize() < MOST_WAITING:
            self._queue.put((task, error, exception))
        else:
            logger.error("%s: on_failed and task_failed are not called, since %d failures wait", task, MOST_WAITING)

    def pass_over(self, longest: float) -> int:
        """Let another thread continue if a hook has taken more than ``longest`` seconds; return how many hang."""
        if self._thread.abandon(longest):
            logger.error("%s: on_failed, or a receiver of task_failed, hangs: others continue", self._thread.told)
            self._hanging.append(self._thread)
            self._thread = _Reporter(self._queue, self._alias, self._is_finishing)
            self._thread.start()
        self._hanging = [thread for thread in self._hanging if thread.is_alive()]
        return len(self._hanging)

    def finish(self, timeout: float) -> None:
        """Report what is left and end, within ``timeout`` seconds; log what is not reported by then."""
        deadline = clock.monotonic() + timeout
        self._calls_to_finish += 1
        self._is_finishing.set()
        self._queue.put(None)
        self._thread.join(timeout)
        if left := self._queue.unfinished_tasks - self._calls_to_finish:
            told = [str(thread.told) for thread in (*self._hanging, self._thread) if thread.is_telling] or ["a task"]
            whose = plural(len(told), "its failure is", "their failures are")
            more = left - len(told)
            text = f"%s: {whose} still being reported; %d more {plural(more, 'is', 'are')} not"
            logger.error(text, ", ".join(told), more)
        self.log.finish(max(0.0, deadline - clock.monotonic()))


class _Reporter(Thread):
    """A thread that reports one failure after the other; ``told`` is the task of the current or the last one."""

    def __init__(self, queue: "Queue[Failure | None]", alias: str, is_finishing: Event) -> None:
        super().__init__(name="failures", daemon=True)
        self._is_finishing = is_finishing
        self._queue = queue
        self._alias = alias
        self._began: float | None = None
        self._is_abandoned = False
        self._lock = Lock()
        self.told: ClaimedTask | None = None

    @property
    def is_telling(self) -> bool:
        """Whether the report of ``told`` has not ended."""
        return self._began is not None

    def abandon(self, longest: float) -> bool:
        """End this thread after its current report if that has taken more than ``longest`` seconds; return whether."""
        with self._lock:
            self._is_abandoned = self._began is not None and clock.monotonic() - self._began > longest
            return self._is_abandoned

    def run(self) -> None:
        with kept_connections.of_thread(self._alias) as own:
            while (failure := self._queue.get()) is not None:
                self._connect(own)
                self.told, self._began = failure[0], clock.monotonic()
                tell_failed(*failure)
                failure = None  # the next get() would keep its exception, and what the frames of the traceback hold
                with self._lock:
                    self._began = None
                    is_abandoned = self._is_abandoned
                self._queue.task_done()
                if is_abandoned:
                    return
                own.tidy()

    def _connect(self, own: kept_connections.OfThread) -> None:
        """Wait for a connection: a hook whose query cannot connect would not be told again. At the end, do without."""
        backoff = Backoff()
        own.refresh(was_idle=True)
        while kept_connections.failure_to_open(self._alias) and not self._is_finishing.is_set():
            backoff.wait(self._is_finishing)
