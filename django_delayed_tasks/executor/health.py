"""Whether an executor's process is still sound, or must be restarted."""

from collections.abc import Sequence
from threading import Event

from django_delayed_tasks import clock
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.running.awaited_runs import AwaitedRuns
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.executor.settling.failure_reports import FailureReports
from django_delayed_tasks.executor.threads.crew import Crew
from django_delayed_tasks.executor.threads.loop import Loop
from django_delayed_tasks.support.durations import plural
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

MAX_CALL = 60.0
"""Seconds after which a statement of the heartbeat, the poller or the settler, or a hook, counts as hung."""
HOUSEKEEPING = "housekeeping"
PATIENCE = 10
"""The factor by which housekeeping may work longer than others, on many rows, and writes be refused to an executor that
holds claims: after a restart, its runs that have ended would be run again, and without one they are settled.
"""


class Health:
    """Watches the threads of an executor; ``worn_out`` is set when it cannot recover by itself."""

    def __init__(
        self,
        options: ExecutorOptions,
        lease: Lease,
        held: Held,
        workers: Crew[CurrentRun],
        awaited: AwaitedRuns,
        failures: FailureReports,
        threads: Sequence[Loop],
        worn_out: Event,
    ) -> None:
        self._longest_call = max(MAX_CALL, 3 * options.lease)
        self._max_lost = options.max_lost_threads
        self._lease = lease
        self._held = held
        self._workers = workers
        self._awaited = awaited
        self._failures = failures
        self._threads = threads
        self._worn_out = worn_out
        self._is_resting = False
        self._checked = clock.monotonic()

    @property
    def is_live(self) -> bool:
        """Whether this process need not be restarted, as far as its watchdog knows, which looks regularly."""
        is_watched = self._is_resting or clock.monotonic() - self._checked < self._longest_call
        return is_watched and not self._worn_out.is_set()

    def rest(self) -> None:
        """Report nothing from now on: the threads are about to end."""
        self._is_resting = True

    def check(self) -> None:
        """Log and note a trouble from which this process cannot recover."""
        self._checked = clock.monotonic()
        if not self._worn_out.is_set() and (trouble := self.trouble()):
            logger.error("%s; this process must be restarted", trouble)
            self._worn_out.set()

    def trouble(self) -> str:
        """Return the trouble from which this process cannot recover by itself, or an empty string."""
        if self._is_resting:
            return ""
        if len(self._workers.lost()) + self._failures.pass_over(self._longest_call) > self._max_lost:
            return f"more than {self._max_lost} {plural(self._max_lost, 'thread hangs', 'threads hang')}"
        if self._awaited.count_lost() > self._max_lost:
            return f"more than {self._max_lost} async {plural(self._max_lost, 'run does', 'runs do')} not end"
        if dead := [thread.name for thread in self._threads if not thread.is_alive]:
            return f"the thread {dead[0]} has ended"
        if stuck := [thread.name for thread in self._threads if self._is_stuck(thread)]:
            return f"the thread {stuck[0]} gets no answer from the database"
        if self._lease.refused_for > self._longest_call * (PATIENCE if self._held else 1):
            return "the database answers, but accepts no writes"  # perhaps a server that was demoted
        if self._awaited.loop.seconds_blocked() > self._longest_call:
            return "a handler blocks the event loop"
        if self._awaited.loop.queries.stalled_for() > self._longest_call:
            return "a call of an async run blocks the thread that makes the queries of all"
        return ""

    def _is_stuck(self, thread: Loop) -> bool:
        return thread.busy_for() > self._longest_call * (PATIENCE if thread.name == HOUSEKEEPING else 1)
