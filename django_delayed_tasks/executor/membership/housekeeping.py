"""Housekeeping, which any executor does for all: reap, purge, survey. It also learns which other executors are alive.

Each duty has its own period.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.membership.reaper import Reaper
from django_delayed_tasks.executor.membership.retention import Retention, Way
from django_delayed_tasks.executor.membership.surveyor import Surveyor
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.settling.failure_reports import FailureReports
from django_delayed_tasks.executor.tally import tally_of
from django_delayed_tasks.executor.threads.loop import TICK
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.records import rollup
from django_delayed_tasks.store.records.history import oldest
from django_delayed_tasks.store.records.purging import ALL, SUCCESSES
from django_delayed_tasks.store.resources.rate_tokens import delete_unused_starts
from django_delayed_tasks.store.resources.slots import delete_unused_slots
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.store.sql.portions import MAX_PURGED


@dataclass(slots=True)
class Duty:
    """A duty to perform about every ``period`` seconds, at other moments than other executors do.

    ``perform()`` returns whether there is more to do soon.
    """

    period: float
    perform: Callable[[], bool]
    next_time: float = float("-inf")

    def is_due(self) -> bool:
        return clock.monotonic() >= self.next_time

    def done(self, again_soon: bool = False) -> None:
        wait = 0.1 if again_soon else self.period * random.uniform(0.75, 1.25)
        self.next_time = clock.monotonic() + wait


class Housekeeping:
    """The duties of one executor; :meth:`tick` performs those that are due.

    Reaping needs no polling: it is done when a lease of another executor runs out without having been renewed, while
    that of this one is steady, and from time to time for claims that were made late.
    """

    def __init__(
        self,
        options: ExecutorOptions,
        lease: Lease,
        peers: Peers,
        database_clock: clock.DatabaseClock,
        failures: FailureReports,
    ) -> None:
        self._reaper = Reaper(options, lease, failures)
        self._alias = options.database
        self._lease = lease
        self._peers = peers
        self._clock = database_clock
        self._retention = Retention(options.database, options.keep_history)
        keep = options.once_retention
        self._successes = None if keep is None else Way(options.database, keep, ALL, SUCCESSES)
        self._surveyor = Surveyor(options.database, peers)
        self._first_expiry: datetime | None = None
        self._duties = [
            Duty(options.heartbeat, self.refresh_peers),
            Duty(10.0, self.reap),
            Duty(600.0, self.refresh_retention),
            Duty(10.0, self.purge),
            Duty(10.0, self.purge_successes),
            Duty(600.0, self.purge_ended),
            Duty(600.0, self.purge_slots),
            Duty(3.0, self.flush_tally),  # a crash loses the statistics of these seconds
            Duty(30.0, self._surveyor.step),
            Duty(600.0, self.purge_statistics),
        ]

    def add(self, duty: Duty) -> None:
        """Add a duty."""
        self._duties.append(duty)

    def tick(self) -> float:
        """Perform the duties that are due; return the seconds until the next tick is worthwhile."""
        if self._first_expiry and self._lease.is_steady and self._clock.now() > self._first_expiry:
            self._first_expiry = None  # until refresh_peers(): a reap that always fails must not starve other duties
            self.reap()
            self._clock.set(read_now(self._alias))  # perhaps no executor died, and the database's clock was set back
            self.refresh_peers()
        for duty in [duty for duty in self._duties if duty.is_due()]:
            # Moved to the end first: a duty that always fails must not starve the others.
            self._duties.remove(duty)
            self._duties.append(duty)
            duty.done(again_soon=duty.perform())
        return self._until_next()

    def _until_next(self) -> float:
        if not self._first_expiry or not self._lease.is_steady:
            return TICK
        until_expiry = (self._first_expiry - self._clock.now()).total_seconds()
        return min(TICK, max(0.001, until_expiry + 0.001))

    def refresh_peers(self) -> bool:
        """Learn which executors are alive, what they can run, and when the first of their leases expires."""
        live = executors.live(self._alias)
        others = [peer for peer in live if peer.id != self._lease.executor]
        self._peers.refresh(self._lease.executor, live)
        self._first_expiry = min((peer.expires_at for peer in others), default=None)
        return False

    def reap(self) -> bool:
        """Reap the tasks of executors that have ended."""
        return self._reaper.reap()

    def refresh_retention(self) -> bool:
        """Learn how long the runs of each code are kept; look again at what was ahead of its time."""
        self._retention.refresh_periods()
        if self._successes:
            self._successes.turn()
        return False

    def purge(self) -> bool:
        """Delete a batch of expired history: only a batch, since reaping must not wait for a backlog of it."""
        return self._retention.purge(MAX_PURGED)

    def purge_successes(self) -> bool:
        """Forget a batch of successes of ``once`` tasks that are older than ``once_retention``."""
        return self._successes is not None and self._successes.purge(MAX_PURGED)

    def flush_tally(self) -> bool:
        """Add the ends of runs in this process to the statistics."""
        tally_of(self._alias).flush(self._alias, self._clock.now())
        return False

    def purge_statistics(self) -> bool:
        """Delete a batch of statistics that are older than they are kept."""
        return rollup.purge(self._alias, self._clock.now(), MAX_PURGED) >= MAX_PURGED

    def purge_slots(self) -> bool:
        """Delete a batch of slots, and of keys' rate tokens, that no executor has asked for recently."""
        deleted = delete_unused_slots(self._alias, MAX_PURGED), delete_unused_starts(self._alias, MAX_PURGED)
        return max(deleted) == MAX_PURGED

    def purge_ended(self) -> bool:
        """Delete a batch of executors that ended before the oldest run in the history did: no run names them."""
        now = read_now(self._alias)
        before = min(now, oldest(self._alias) or now) - timedelta(days=1)  # some were reaped after it ended
        return executors.purge_ended(self._alias, before, MAX_PURGED) == MAX_PURGED
