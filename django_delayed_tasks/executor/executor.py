"""One executor: its parts, how they are joined, and how they start and stop."""

import logging
from threading import Event

from django_delayed_tasks import clock
from django_delayed_tasks.executor.claiming.listener import listening_for
from django_delayed_tasks.executor.claiming.lookahead import Lookahead
from django_delayed_tasks.executor.claiming.poller import Poller
from django_delayed_tasks.executor.claiming.unknown_codes import UnknownCodes
from django_delayed_tasks.executor.inflight import InFlight, give_back_resource
from django_delayed_tasks.executor.limits.gate import Gate
from django_delayed_tasks.executor.membership.heartbeat import Heartbeat
from django_delayed_tasks.executor.membership.housekeeping import Duty, Housekeeping
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.membership.recurrences import CONFIRM_EVERY, Recurrences
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.running.performer import Performer
from django_delayed_tasks.executor.running.timeouts import Watchdog
from django_delayed_tasks.executor.running.workers import Running
from django_delayed_tasks.executor.settling.failures import Failures
from django_delayed_tasks.executor.settling.progress_reports import ProgressReports
from django_delayed_tasks.executor.settling.settler import Settler
from django_delayed_tasks.executor.threads.loop import Loop
from django_delayed_tasks.handlers import get_task_handlers
from django_delayed_tasks.store.claiming.postpone import pull_forward
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.settling.reap import release
from django_delayed_tasks.store.settling.settlement import Settlement, released

logger = logging.getLogger(__name__)

WATCH_EVERY = 0.2
"""Seconds between two iterations of the watchdog."""
LONGEST_CALL = 60.0
"""Seconds after which a statement of the heartbeat, the poller or the settler counts as hung."""
STALLED = 1.0
"""Seconds without a start after which prefetched tasks are given back."""


class Executor:
    """An executor that claims and runs tasks in threads of this process until :meth:`stop`."""

    def __init__(self, options: ExecutorOptions) -> None:
        self.options = options
        alias = options.database
        self.lease = Lease(options)
        self.inflight = InFlight()
        self.clock = clock.DatabaseClock()
        self.sleeper = Event()
        self.drained = Event()
        self.worn_out = Event()
        self._stopping = False
        self.failures = Failures(alias)
        self.settler = Settler(alias, self.inflight, self.failures.put)
        self.performer = Performer(options, self.inflight, self.settler, self.lease, self.clock)
        self.pool = self.performer.pool
        rank = Peers()
        screening = UnknownCodes(rank)
        self.lookahead = Lookahead()
        self.gate = self._make_gate()
        self.inflight.when_finished = self._refill
        self.inflight.when_removed = self._note_removed
        self.poller = Poller(
            options, self.lease, self.inflight, screening, rank, self.clock, self.gate.admit, self._give_back,
            self.gate, None if options.drain else self.lookahead,
        )  # fmt: skip
        self.poller.release_now = self._give_back_now
        self.watchdog = Watchdog(self.pool, self.clock, self._give_up)
        self.recurrences = Recurrences(alias)
        self.housekeeping = Housekeeping(options, self.lease, rank, self.clock, self.failures.put)
        self._polling = Loop("poller", alias, self._poll, self.sleeper, self.poller.forget)
        self._listening = listening_for(options, lambda: rank.executors, lambda: not self._has_room(), self.sleeper.set)
        self._guarding = Loop("gate", alias, self.gate.tick, self.gate.sleeper)
        self._patience = max(LONGEST_CALL, 3 * options.lease)
        self._watching = Loop("watchdog", alias, self._watch)
        self._housekeeping = Loop("housekeeping", alias, self.housekeeping.tick)
        self.housekeeping.add(Duty(CONFIRM_EVERY, self.recurrences.confirm))
        self._reporting = Loop("reports", alias, ProgressReports(alias, self.inflight).write)
        self._beating = self._make_heartbeat()

    def _make_heartbeat(self) -> Loop:
        alias, period = self.options.database, self.options.heartbeat
        heartbeat = Heartbeat(alias, self.lease, self._forget_claims, self.worn_out.set)
        return Loop(
            "heartbeat", alias, lambda: period if heartbeat.beat() else min(1.0, period), farewell=self._farewell
        )

    def _make_gate(self) -> Gate:
        return Gate(
            self.options,
            self.inflight,
            self.lease,
            self.clock,
            lambda: self.options.threads - self.inflight.unfinished,
            self.performer.queue,
            self._give_back,
            self.settler.put,
        )

    def start(self) -> None:
        """Register this executor, start its threads, and return at once.

        Raises:
            NameInUse: a live executor has this name.
            DatabaseError: the database cannot be reached.
        """
        self.lease.acquire()
        self.failures.start()
        try:
            self.recurrences.declare()
            self.housekeeping.reap()
            self._pull_forward()
        except BaseException:
            self.failures.finish(1.0)
            self.lease.end()
            raise
        wakeup.enlist(self.sleeper)
        self.settler.start()
        self.pool.start()
        for loop in (self._beating, self._polling, self._guarding, self._housekeeping, self._watching, self._reporting):
            loop.start()
        if self._listening:
            self._listening.start()

    def _pull_forward(self) -> None:
        """Make postponed tasks claimable again: a drain runs everything that is due, including those."""
        if self.options.drain:
            limited = [code for code, handler in get_task_handlers().items() if handler.is_limited]
            pull_forward(self.options.database, limited)

    def _poll(self) -> float:
        # Checked before the poll: a run that is settled during the poll may have added a task.
        had_nothing = not len(self.inflight)
        seconds = self.poller.poll()
        is_done = self.poller.has_enough or (self.options.drain and self.poller.found_nothing)
        if had_nothing and is_done:
            self.drained.set()
        return min(seconds, 0.02) if self.options.drain and not self.drained.is_set() else seconds

    def _note_removed(self) -> None:
        """React in the settler's thread to claims that have ended."""
        self.gate.wake()
        if self.poller.demand.waits_for_settler:
            self._refill()

    def _refill(self) -> None:
        if self._has_room() and not self.sleeper.is_set():
            self.sleeper.set()

    def _has_room(self) -> bool:
        return self.inflight.unfinished < self.poller.demand.refill_below

    def _give_up(self, running: Running, settlements: list[Settlement]) -> None:
        self.inflight.finish([task.claim for task in running.tasks], clock.monotonic() - running.began)
        for settlement in settlements:
            self.settler.put(settlement)

    def _watch(self) -> float:
        self.watchdog.tick()
        self._give_back([released(task) for task in self.pool.take_back_stalled(STALLED)])
        if not self.worn_out.is_set() and (trouble := self._trouble()):
            logger.error("%s; this process must be restarted", trouble)
            self.worn_out.set()
        return WATCH_EVERY

    def _trouble(self) -> str:
        """Return what this process cannot recover from by itself, or an empty string."""
        if self._stopping:
            return ""
        if self.pool.count_lost() > self.options.max_lost_threads:
            return f"more than {self.options.max_lost_threads} threads hang"
        parts = (self._beating, self._polling, self._guarding, self._housekeeping, self.settler)
        if dead := [part.name for part in parts if not part.is_alive]:
            return f"the thread {dead[0]} has ended"
        # Housekeeping may work on many rows for a long time.
        patience = {self._housekeeping.name: 10 * self._patience}
        if stuck := [part.name for part in parts if part.busy_for() > patience.get(part.name, self._patience)]:
            return f"the thread {stuck[0]} gets no answer from the database"
        return ""

    def _give_back(self, settlements: list[Settlement]) -> None:
        """Release claims that will not be started in this process."""
        for settlement in settlements:
            if task := self.inflight.get(settlement.claim):
                give_back_resource(task)
            self.inflight.give_back(settlement.claim)
            self.settler.put(settlement)

    def _give_back_now(self, settlements: list[Settlement]) -> None:
        """Release claims like :meth:`_give_back`, but before returning; raise DatabaseError if that fails."""
        release(self.options.database, settlements)
        for settlement in settlements:
            self.inflight.give_back(settlement.claim)
        self.inflight.remove(settlement.claim for settlement in settlements)

    def _forget_claims(self) -> None:
        """Forget claims that have not started: this executor was declared dead, and other executors own them now."""
        tasks = self.pool.take_back() + self.gate.take_back()
        for task in tasks:
            give_back_resource(task)
            self.inflight.give_back(task.claim)
        self.inflight.remove(task.claim for task in tasks)

    def stop(self, timeout: float | None = None) -> bool:
        """Stop claiming, release what has not started, wait for the runs, settle them, and end the lease.

        The lease is renewed meanwhile. ``timeout`` is in seconds (default: the option ``shutdown_timeout``). Return
        False if runs were left behind: other executors take their tasks at once.
        """
        deadline = clock.monotonic() + (self.options.shutdown_timeout if timeout is None else timeout)
        self._stopping = True
        wakeup.dismiss(self.sleeper)
        self._polling.stop()
        if self._listening:
            self._listening.stop()
        self._guarding.stop()
        self._give_back([released(task) for task in self.gate.take_back()])
        self.performer.stop()
        is_clean = self.pool.finish(deadline - clock.monotonic())
        is_settled = self.settler.finish(max(1.0, deadline - clock.monotonic()))
        for loop in (self._reporting, self._watching, self._housekeeping, self._beating):
            loop.stop()
        self.failures.finish(max(1.0, deadline - clock.monotonic()))
        if not is_clean:
            logger.error("%d runs did not end in time and are left behind", self.inflight.unfinished)
        return is_clean and is_settled

    def _farewell(self) -> None:
        """End the lease and reap what is still claimed under it: the last act of the heartbeat's thread."""
        self.lease.end()
        self.housekeeping.reap()
