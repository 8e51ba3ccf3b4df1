"""Reports how runs ended, once that is committed: to the log, and failures to ``on_failed`` and ``task_failed``."""

from math import inf
from threading import Event
from typing import NamedTuple

from django_delayed_tasks import clock, signals
from django_delayed_tasks.executor import project
from django_delayed_tasks.executor.settling.run_log import MAX_WAITING, RunLog, log_end
from django_delayed_tasks.executor.threads.crew import Crew, CrewThread, Jobs
from django_delayed_tasks.executor.threads.loop import Backoff
from django_delayed_tasks.handlers import accepts_exception, find
from django_delayed_tasks.handlers.functions import find_function
from django_delayed_tasks.states import NextState
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement, is_final_failure
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.support.durations import plural
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


class Failure(NamedTuple):
    """A failure that is to be reported: the text of the error, and the exception if there was one."""

    task: ClaimedTask
    error: str
    exception: BaseException | None

    def __str__(self) -> str:
        return f"on_failed of {self.task}"


def report_here(task: ClaimedTask, settlement: Settlement, then: NextState) -> None:
    """Report a committed end in this thread, which is that of the run."""
    log_end(task, settlement, then)
    if is_final_failure(settlement.outcome, then):
        tell_failed(task, settlement.error, settlement.exception)


def tell_failed(task: ClaimedTask, error: str, exception: BaseException | None = None) -> None:
    """Send ``task_failed`` and call ``on_failed``; log what they raise."""
    project.attempt(Failure(task, error, exception), _tell, task, error, exception)


def _tell(task: ClaimedTask, error: str, exception: BaseException | None) -> None:
    # A function whose executor died may not be imported in the one that takes its task.
    handler = find(task.biz_code) or find_function(task)
    signals.task_failed.send_robust(sender=type(handler), task=task, error=error, exception=exception)
    if handler and accepts_exception(handler.on_failed):
        handler.on_failed(task, error, exception=exception)  # type: ignore[call-arg]
    elif handler:
        handler.on_failed(task, error)


class FailureReports:
    """Threads that report failures: hooks are a project's code and must not hold up the settler or the reaper.

    One thread reports at a time. If a hook hangs, :meth:`pass_over` lets another thread continue with the next failure.

    Attributes:
        log: the log of runs, which has a thread of its own, so that a hook that hangs does not hold it up.
    """

    def __init__(self, alias: str) -> None:
        self.log = RunLog(alias)
        self._alias = alias
        self._failures: Jobs[Failure] = Jobs()
        self._crew = Crew("failures", alias, self._failures, self._report)
        self._is_finishing = Event()

    def start(self) -> None:
        """Start the threads."""
        self.log.start()
        self._crew.start()

    def report(self, task: ClaimedTask, settlement: Settlement, then: NextState) -> None:
        """Report a committed end soon: in the log, and to the hooks if it is a final failure."""
        self.log.put(task, settlement, then)
        if is_final_failure(settlement.outcome, then):
            self.put(task, settlement.error, settlement.exception)

    def put(self, task: ClaimedTask, error: str, exception: BaseException | None = None) -> None:
        """Report this failure to the hooks soon; log that they are not told if too many failures wait."""
        if self._failures.qsize() < MAX_WAITING:
            self._failures.put(Failure(task, error, exception))
        else:
            logger.error("%s: on_failed and task_failed are not called, since %d failures wait", task, MAX_WAITING)

    def _report(self, thread: CrewThread[Failure], failure: Failure) -> None:
        thread.began = inf  # a thread that waits for a connection does not hang
        self._connect(thread.own)
        thread.began = clock.monotonic()
        tell_failed(*failure)

    def _connect(self, own: kept_connections.OfThread) -> None:
        """Wait for a connection: a hook whose query cannot connect would not be told again. At the end, do without."""
        backoff = Backoff()
        own.refresh(was_idle=True)
        while kept_connections.failure_to_open(self._alias) and not self._is_finishing.is_set():
            backoff.wait(self._is_finishing)

    def pass_over(self, longest: float) -> int:
        """Let another thread continue if a hook has taken more than ``longest`` seconds; return how many hang."""
        for thread, failure in self._crew.busy():
            if thread.busy_for() > longest and self._crew.give_up(thread, failure):
                logger.error("%s: on_failed, or a receiver of task_failed, hangs: others continue", failure.task)
        self._crew.start()
        return len(self._crew.lost())

    def finish(self, timeout: float) -> None:
        """Report what is left and end, within ``timeout`` seconds; log what is not reported by then."""
        deadline = clock.monotonic() + timeout
        self._is_finishing.set()
        self._crew.finish(timeout)
        told = [str(job.task) for thread in (*self._crew.lost(), *self._crew.threads) if (job := thread.job)]
        if left := len(told) + self._failures.left():
            told = told or ["a task"]
            whose = plural(len(told), "its failure is", "their failures are")
            more = left - len(told)
            text = f"%s: {whose} still being reported; %d more {plural(more, 'is', 'are')} not"
            logger.error(text, ", ".join(told), more)
        self.log.finish(max(0.0, deadline - clock.monotonic()))
