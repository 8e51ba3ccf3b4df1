"""What any executor does for all: reap, purge, and learn who else is alive. Each duty has its own period."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.states import Then
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, load
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.records.history import purge
from django_delayed_tasks.store.records.once import purge_successes
from django_delayed_tasks.store.resources.slots import delete_unused_slots
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.store.settling.reap import reap

logger = logging.getLogger(__name__)

PURGE_BATCH = 1000
TICK = 0.2
KEEP_DEAD = timedelta(days=1)
"""How long rows of ended executors can be looked at."""


@dataclass(slots=True)
class Duty:
    """Something to do about every ``period`` seconds, not at the same moment as other executors.

    ``perform()`` tells whether there is more of it to do soon.
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
    """The duties of one executor; :meth:`tick` does those that are due and can be called by hand.

    Reaping needs no polling: it is done when the first lease of another executor runs out, if it was not renewed, and
    now and then for claims that were made late.
    """

    def __init__(
        self,
        options: ExecutorOptions,
        lease: Lease,
        rank: Peers,
        database_clock: clock.DatabaseClock,
        tell_failed: Callable[[ClaimedTask, str], None],
    ) -> None:
        self._tell_failed = tell_failed
        self._options = options
        self._alias = options.database
        self._lease = lease
        self._rank = rank
        self._clock = database_clock
        self._first_expiry: datetime | None = None
        self._duties = [
            Duty(options.heartbeat, self.look_around),
            Duty(10.0, self.reap),
            Duty(10.0, self.purge),
            Duty(10.0, self.purge_successes),
            Duty(600.0, self.purge_dead),
            Duty(600.0, self.purge_slots),
        ]

    def add(self, duty: Duty) -> None:
        """One more."""
        self._duties.append(duty)

    def tick(self) -> float:
        """Do what is due; seconds until it is worth asking again."""
        if self._first_expiry and self._clock.now() > self._first_expiry:
            self._first_expiry = None  # until somebody looks around: if to reap fails, it must not come first for ever
            self.reap()
            self._clock.set(read_now(self._alias))  # nobody may have died: it was set back
            self.look_around()
        for duty in [duty for duty in self._duties if duty.is_due()]:
            # Last in line from here on: if it always fails, the others have their turn all the same.
            self._duties.remove(duty)
            self._duties.append(duty)
            duty.done(again_soon=duty.perform())
        return self._until_next()

    def _until_next(self) -> float:
        if not self._first_expiry:
            return TICK
        until_expiry = (self._first_expiry - self._clock.now()).total_seconds()
        return min(TICK, max(0.001, until_expiry + 0.001))

    def look_around(self) -> bool:
        """Who is alive, and what can they run."""
        live = executors.live(self._alias)
        others = [peer for peer in live if peer.id != self._lease.executor]
        self._rank.refresh(self._lease.executor, live)
        self._first_expiry = min((peer.expires_at for peer in others), default=None)
        return False

    def reap(self) -> bool:
        """Take tasks from dead executors."""
        while taken := reap(self._alias, self._options.max_rescues):
            logger.warning("took %d tasks from dead executors", len(taken))
            wakeup.wake()
            for claim, then in taken.items():
                if then is Then.FAILED and (failed := load(self._alias, claim)):
                    self._tell_failed(*failed)
        return False

    def purge(self) -> bool:
        """Delete a batch of history that is too old: reaping must not wait for a backlog of it."""
        keep = self._options.keep_history
        return keep is not None and purge(self._alias, keep, PURGE_BATCH) == PURGE_BATCH

    def purge_successes(self) -> bool:
        """Forget a batch of what was done once, if it was done long enough ago."""
        keep = self._options.once_retention
        return keep is not None and purge_successes(self._alias, keep, PURGE_BATCH) == PURGE_BATCH

    def purge_slots(self) -> bool:
        """Delete slots that nobody has asked for of late."""
        return delete_unused_slots(self._alias, PURGE_BATCH) == PURGE_BATCH

    def purge_dead(self) -> bool:
        """Delete rows of executors that ended long ago."""
        executors.purge_dead(self._alias, KEEP_DEAD)
        return False
