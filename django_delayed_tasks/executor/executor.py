"""One executor: its parts, and how they start and stop."""

from collections.abc import Callable
from contextlib import suppress
from threading import Event

from django.db import Error

from django_delayed_tasks import clock
from django_delayed_tasks.executor import announcing, meter
from django_delayed_tasks.executor.admission import Admission
from django_delayed_tasks.executor.claiming.agenda_reader import AgendaReader
from django_delayed_tasks.executor.claiming.listener import listening_for
from django_delayed_tasks.executor.claiming.lookahead import Lookahead
from django_delayed_tasks.executor.claiming.poller import Poller
from django_delayed_tasks.executor.health import HOUSEKEEPING, Health
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.limits.lanes import Lanes
from django_delayed_tasks.executor.limits.relay import Relay
from django_delayed_tasks.executor.membership.housekeeping import Duty, Housekeeping
from django_delayed_tasks.executor.membership.lease import Heartbeat, Lease
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.membership.recurrences import CONFIRM_EVERY, Recurrences
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.capacity import Capacity
from django_delayed_tasks.executor.running.awaited_runs import GRACE, AwaitedRuns
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.executor.running.run_queue import RunQueue
from django_delayed_tasks.executor.running.watchdog import Watchdog
from django_delayed_tasks.executor.running.worker import Performer
from django_delayed_tasks.executor.settling.failure_reports import FailureReports
from django_delayed_tasks.executor.settling.settler import ProgressReports, Settler
from django_delayed_tasks.executor.starting import Starting
from django_delayed_tasks.executor.threads.crew import Crew
from django_delayed_tasks.executor.threads.loop import TICK, Loop
from django_delayed_tasks.executor.unanswered_claims import UnansweredClaims
from django_delayed_tasks.handlers import middleware
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.support.durations import listed, plural
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


class Executor:
    """An executor that claims and runs tasks in threads of this process until :meth:`stop`.

    Attributes:
        drained: set when a drain, or an executor with ``max_tasks``, has nothing more to do.
        worn_out: set when this process must be restarted.
    """

    def __init__(
        self,
        options: ExecutorOptions,
        *,
        lease: Lease | None = None,
        failures: type[FailureReports] = FailureReports,
        awaited: type[AwaitedRuns] = AwaitedRuns,
        lookahead: type[Lookahead] = Lookahead,
        settler: type[Settler] = Settler,
    ) -> None:
        """Make and join all parts. Those that are given stand in for the usual ones where a test turns the loops."""
        self.options = options
        alias = options.database
        self.worn_out = Event()
        self.clock = clock.DatabaseClock()
        self.lease = lease or Lease(options)
        self.peers = Peers()
        self.capacity = Capacity(options)
        self.held = Held(alias, self.capacity)
        self.failures = failures(alias)
        self.awaited = awaited(options, self.capacity)
        self.queue = RunQueue(self.held, self.awaited)
        self.lookahead = lookahead(options)
        self.performer = Performer(options, self.lease, self.held, self.queue, self.clock)
        self.workers = Crew(
            "worker",
            alias,
            self.queue,
            self.performer.work,
            self.performer.fail_run,
            options.threads,
            connects_first=True,
        )
        self.admission = Admission(options, self.held, self.peers)
        starting = Starting(self.held, self.admission, self.queue)
        unanswered = UnansweredClaims(alias, self.lease, self.held)
        self.lanes = Lanes(options, self.lease, self.held, self.admission, starting, self.peers, unanswered, self.clock)
        relay = Relay(alias, self.lease, self.held, self.lanes, starting, unanswered, self.clock)
        self.settler = settler(alias, self.held, self.failures, relay)
        reader = AgendaReader(alias, self.lookahead, self.clock)
        self.poller = Poller(
            options,
            self.lease,
            self.held,
            self.peers,
            self.queue,
            self.admission,
            starting,
            self.lanes,
            reader,
            unanswered,
        )
        self.drained = self.poller.drained
        self.watchdog = Watchdog(self.workers, self.awaited, self.queue, self.held, self.clock)
        self.recurrences = Recurrences(alias)
        self.housekeeping = Housekeeping(options, self.lease, self.peers, self.clock, self.failures)
        self.housekeeping.add(Duty(CONFIRM_EVERY, self.recurrences.confirm))
        heartbeat = Heartbeat(options, self.lease, self.worn_out)
        self._beating = Loop("heartbeat", alias, heartbeat.beat, self.lease.has_news, farewell=self._farewell)
        self._polling = Loop("poller", alias, self.poller.poll, self.capacity.plain.wake, self.poller.forget)
        claiming = Loop("lanes", alias, self.lanes.tick, self.capacity.limited.wake, self.lanes.forget)
        # The poller of an executor that ends by itself claims from the lanes, too.
        self._claiming = [] if options.ends_by_itself else [claiming]
        self._housekeeping = Loop(HOUSEKEEPING, alias, self.housekeeping.tick)
        self._watching = Loop("watchdog", alias, self._watch)
        self._reporting = Loop("reports", alias, ProgressReports(alias, self.held).write)
        self._listening = listening_for(options, self.peers, self.capacity)
        vital = [self._beating, self._polling, *self._claiming, self._housekeeping, self.settler]
        self.health = Health(
            options, self.lease, self.held, self.workers, self.awaited, self.failures, vital, self.worn_out
        )

    def start(self, registered: Callable[[], None] = lambda: None) -> None:
        """Register this executor, start its threads, and return at once.

        Args:
            registered: called once the executor is registered, before it claims its first task.

        Raises:
            NameInUse: a live executor has this name.
            DatabaseError: the database cannot be reached.
            InvalidSetting: a middleware cannot be built.
        """
        middleware.load()
        self.lease.acquire()
        self.failures.start()
        try:
            self.recurrences.declare()
            self.housekeeping.reap()
            self.housekeeping.refresh_peers()
            registered()
        except BaseException:
            self.failures.finish(1.0)
            self.lease.end()
            raise
        announcing.starting(self.lease.executor, self.options)
        wakeup.enlist(self.capacity.plain.wake)
        meter.watch(self.activity)
        self.settler.start()
        self.workers.start()
        self.awaited.start(self.performer)
        working = [self._beating, self._polling, *self._claiming, self._housekeeping]
        for loop in (*working, self._watching, self._reporting):
            loop.start()
        if self._listening:
            self._listening.start()
        announcing.started(self.lease.executor, self.options)

    def _watch(self) -> float:
        self.watchdog.tick()
        self.health.check()
        return TICK

    def stop(self, timeout: float | None = None) -> bool:
        """Stop claiming, release what has not started, wait for the runs, settle them, and end the lease.

        The lease is renewed meanwhile. ``timeout`` is in seconds (default: the option ``shutdown_timeout``). Return
        False if runs were left behind, or their ends were not written: other executors take their tasks at once.
        """
        deadline = clock.monotonic() + (self.options.shutdown_timeout if timeout is None else timeout)
        self.health.rest()
        self.lease.begin_stop()
        wakeup.dismiss(self.capacity.plain.wake)
        self._polling.stop()
        if self._listening:
            self._listening.stop()
        for loop in self._claiming:
            loop.stop()
        self.queue.close()
        self.workers.finish(deadline - clock.monotonic())
        self._cut_off()
        self.awaited.finish(deadline - clock.monotonic())
        is_settled = self.settler.finish(max(GRACE, deadline - clock.monotonic()))
        for loop in (self._reporting, self._watching, self._housekeeping, self._beating):
            loop.stop()
        self.failures.finish(max(GRACE, deadline - clock.monotonic()))
        is_clean = not self._left_behind() and is_settled
        meter.unwatch(self.activity)
        announcing.stopped(self.lease.executor, self.options, is_clean)
        return is_clean

    def _cut_off(self) -> None:
        """Take the tasks from runs whose transactions would keep what follows from being written, and end these."""
        for thread in [*self.workers.threads, *self.workers.lost()]:
            if running := thread.job:
                try:
                    dialect_of(thread.own.connection).cut_off(running.abandon)
                except Exception:  # its thread may close the connection at the same moment
                    logger.exception("%s could not be cut off", running)

    def _left_behind(self) -> int:
        """Log the tasks that are left behind, and return their number.

        A run that ended after the deadline, and was settled, is not left behind.
        """
        if left := {task.claim: str(task) for task in self.held.tasks()}:
            for run in self.current():
                left.update((task.claim, run.with_age) for task in run.tasks if task.claim in left)
            one = "task is left behind, whose run did not end, or was not settled, in time"
            many = "tasks are left behind, whose runs did not end, or were not settled, in time"
            names = listed(list(dict.fromkeys(left.values())))
            logger.error("%d %s: %s", len(left), plural(len(left), one, many), names)
        return len(left)

    def current(self) -> list[CurrentRun]:
        """Return the current runs, in threads and on the event loop."""
        return self._in_threads() + self.awaited.current()

    def _in_threads(self) -> list[CurrentRun]:
        return [running for _, running in self.workers.busy() if running.tasks]

    def activity(self) -> meter.Activity:
        """Return the present activity of this executor, for its metrics."""
        codes = [task.biz_code for task in self.held.tasks()]
        busy, held = len(self._in_threads()), len(self.held)
        return meter.Activity(self.options.name, self.options.threads, busy, self.capacity.awaited, held, codes)

    def _farewell(self) -> None:
        """End the lease and reap what is still claimed under it: the last act of the heartbeat's thread."""
        self._flush_tally()
        self.lease.end()
        self.housekeeping.reap()
        self._flush_tally()  # of what was reaped

    def _flush_tally(self) -> None:
        with suppress(Error):  # statistics only
            self.housekeeping.flush_tally()
