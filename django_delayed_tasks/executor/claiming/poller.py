"""Finds due tasks and claims them; :meth:`Poller.poll` is one iteration of its loop.

docs/explanation/claiming.md describes how.
"""

import logging
import random
from dataclasses import replace
from datetime import timedelta
from threading import Event

from django.db import Error

from django_delayed_tasks import clock
from django_delayed_tasks.executor.claiming.admission import Admission
from django_delayed_tasks.executor.claiming.agenda_reader import AgendaReader, watermark_of
from django_delayed_tasks.executor.claiming.demand import Demand
from django_delayed_tasks.executor.claiming.lookahead import Lookahead
from django_delayed_tasks.executor.claiming.lost_claims import LostClaims
from django_delayed_tasks.executor.claiming.round_robin import RoundRobin
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.limits.gate import Gate
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.running.run_queue import RunQueue, missing_in_batch
from django_delayed_tasks.executor.threads import connections
from django_delayed_tasks.store.claiming.agenda import Agenda, Level
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import ClaimRequest, Outpaced
from django_delayed_tasks.store.claiming.strategies import strategy_for

logger = logging.getLogger(__name__)

AGAIN = 0.02
"""Seconds at most before another attempt after a lost race, so that executors do not collide again, and in a drain."""
MOST_LOST_RACES = 10
"""Lost races in a row after which this executor no longer expects tasks to remain for it."""


class Poller:
    """Claims tasks for one executor, level by level of the agenda.

    Attributes:
        found_nothing: whether the last poll has proven that no task is due.
        drained: set when a drain, or an executor with ``max_tasks``, has nothing more to do.
    """

    def __init__(
        self,
        options: ExecutorOptions,
        lease: Lease,
        held: Held,
        peers: Peers,
        queue: RunQueue,
        gate: Gate,
        lookahead: Lookahead,
        database_clock: clock.DatabaseClock,
    ) -> None:
        self._options = options
        self._lease = lease
        self._held = held
        self._peers = peers
        self._queue = queue
        self._gate = gate
        self._lookahead = lookahead
        self._clock = database_clock
        self._claim = strategy_for(options.database, options.claim)
        self._claims_as: int | None = None
        self.demand = Demand(options, held)
        self.reader = AgendaReader(options.database, lookahead, database_clock)
        self._levels = RoundRobin(options.poll_interval)
        self._admission = Admission(options, held, peers)
        self._lost_claims = LostClaims(options.database, lease, held)
        self._agenda: Agenda | None = None
        self._ahead = timedelta()
        self._was_outpaced = False
        self._lost_races = 0
        self.found_nothing = False
        self.drained = Event()

    def poll(self) -> float:
        """Claim as many due tasks as are wanted; return the seconds until the next poll is worthwhile."""
        # Checked before the poll: a run that is settled during the poll may have added a task.
        had_nothing = not len(self._held)
        seconds = self._poll()
        is_done = self.has_enough or (self._options.drain and self.found_nothing)
        if had_nothing and is_done:
            self.drained.set()
        return min(seconds, AGAIN) if self._options.drain and not self.drained.is_set() else seconds

    def _poll(self) -> float:
        self.found_nothing = self._was_outpaced = False
        self._drop_lost()
        wanted = 0 if not self._lease.may_claim or self.has_enough else self.demand.wanted()
        if not wanted:
            return self._options.poll_interval
        claimed = self._claim_from_levels(wanted)
        if not claimed:
            self._read_agenda()
            claimed = self._claim_from_levels(wanted)
            self._note_nothing(claimed)
        return 0.0 if claimed else self._until_next()

    @property
    def has_enough(self) -> bool:
        """Whether ``max_tasks`` have been claimed."""
        return self._allowance() == 0

    def _allowance(self) -> int | None:
        most = self._options.max_tasks
        return None if most is None else max(0, most - self._held.claimed)

    def _drop_lost(self) -> None:
        """Drop claims that have not started if this executor was declared dead: other executors own them now.

        Those that the last poll has made under the new id are released: no other executor would reap them.
        """
        before, self._claims_as = self._claims_as, self._lease.executor
        if before not in (None, self._claims_as):
            waiting = self._queue.take_back() + self._gate.take_back()
            self._held.drop(task for task in waiting if task.executor != self._claims_as)
            self._held.release(task for task in waiting if task.executor == self._claims_as)

    def _note_nothing(self, claimed: int) -> None:
        """Note whether this poll found nothing: only a full scan proves that nothing is left below the watermarks."""
        self._lost_races = self._lost_races + 1 if self._was_outpaced and not claimed else 0
        is_nothing = not claimed and not self._may_have_left_some
        is_complete = self._agenda is not None and self._agenda.is_complete
        self.reader.note_idle(is_nothing)
        self.found_nothing = is_nothing and is_complete
        if self._options.drain and is_nothing and not is_complete:
            self.reader.forget()

    @property
    def _may_have_left_some(self) -> bool:
        return 0 < self._lost_races <= MOST_LOST_RACES

    def _read_agenda(self) -> None:
        self._lost_claims.look(at_once=self._agenda is None)
        self._agenda = agenda = self.reader.read()
        self._ahead = self._lookahead.length
        due = (level for level in agenda.due(self._ahead) if self._options.serves(level.queue))
        self._levels.begin(due, agenda.now)

    def _claim_from_levels(self, wanted: int) -> int:
        """Claim up to ``wanted`` tasks, the highest priority first, round robin among equals; return the number."""
        self._levels.expire()
        claimed = 0
        while claimed < wanted and (level := self._levels.next()):
            share = self._levels.share(wanted - claimed)
            tasks = self._claim_from(level, share)
            claimed += len(tasks)
            self._levels.took(len(tasks), share)
        return claimed

    def _claim_from(self, level: Level, limit: int) -> list[ClaimedTask]:
        if (allowance := self._allowance()) is not None:
            limit = min(limit, allowance)
        if not limit:
            return []
        request = self._request(level, limit)
        began = clock.monotonic()
        self._lost_claims.may_come()
        tasks = self._won(request)
        if tasks:
            self._lost_races = 0
            tasks += self._fill_batch(tasks, request)
            self._held.add(tasks)
            self._lookahead.note_claim(clock.monotonic() - began)
            if request.ahead:
                self._lookahead.mark(tasks)
            self._gate.admit(self._admission.admit(tasks))
        return tasks

    def _request(self, level: Level, limit: int) -> ClaimRequest:
        rank, executors = self._peers.among(level.queue)
        is_early = self._agenda is not None and level.earliest > self._agenda.now
        request = ClaimRequest(
            self._lease.executor, level.queue, level.priority, limit,
            watermark=watermark_of(level), excluded=self._admission.excluded(), rank=rank, executors=executors,
            ahead=self._ahead if is_early else timedelta(), rescues_below=self._admission.rescues_below(),
        )  # fmt: skip
        return request if self._gate.has_never_been_used else self._without_limited(request)

    def _without_limited(self, request: ClaimRequest) -> ClaimRequest:
        """Exclude the codes of which enough tasks already wait here; others are postponed if they are in the way."""
        self._gate.clear(replace(request, limit=0))
        return replace(request, excluded=request.excluded | self._gate.full())

    def _won(self, request: ClaimRequest) -> list[ClaimedTask]:
        try:
            return self._claim(self._options.database, request)
        except Outpaced:
            self._was_outpaced = True
            return []

    def _fill_batch(self, tasks: list[ClaimedTask], request: ClaimRequest) -> list[ClaimedTask]:
        """Claim more tasks of this code to fill the batch: they take no further thread."""
        missing = missing_in_batch(tasks) if len(tasks) == request.limit else 0
        if (allowance := self._allowance()) is not None:
            missing = min(missing, allowance - len(tasks))
        if missing <= 0:
            return []
        try:
            return self._won(replace(request, limit=missing, only=tasks[0].biz_code))
        except Error:
            # The tasks that are already claimed must not be lost.
            logger.warning("claiming more of %s failed", tasks[0].biz_code, exc_info=True)
            connections.discard_unusable(self._options.database)
            return []

    def _until_next(self) -> float:
        seconds = self._until_due()
        return min(random.uniform(0, AGAIN), seconds) if self._may_have_left_some else seconds

    def _until_due(self) -> float:
        interval = self._options.poll_interval
        if not self._agenda:
            return interval
        if not self._agenda.is_complete:
            # Whatever woke this executor may be visible to a full scan only.
            interval = min(interval, self.reader.seconds_until_full_scan())
        served = [level.earliest for level in self._agenda.levels if self._options.serves(level.queue)]
        future = [moment for moment in served if moment > self._agenda.now]
        if not future:
            return interval
        soonest = min(future)
        # If it could have been claimed ahead and was not, another executor has claimed it, or this one cannot run it.
        ahead = self._ahead if soonest > self._agenda.now + self._ahead else timedelta()
        return max(0.0, min(interval, (soonest - ahead - self._clock.now()).total_seconds()))

    def forget(self) -> None:
        """Forget everything that was read: after an error none of it can be relied on."""
        self._levels.clear()
        self._agenda = None
        self.reader.forget()
