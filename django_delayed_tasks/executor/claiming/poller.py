"""Finds due tasks and claims them; :meth:`Poller.poll` is one iteration of its loop.

docs/explanation/claiming.md describes how.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from django.db import Error

from django_delayed_tasks import clock
from django_delayed_tasks.executor.claiming.agenda_reader import AgendaMemory, Sweeps, floor_of
from django_delayed_tasks.executor.claiming.crash_suspects import CrashSuspects
from django_delayed_tasks.executor.claiming.demand import Demand
from django_delayed_tasks.executor.claiming.lookahead import Lookahead
from django_delayed_tasks.executor.claiming.lost_claims import LostClaims
from django_delayed_tasks.executor.claiming.rivals import Rivals
from django_delayed_tasks.executor.claiming.round_robin import RoundRobin
from django_delayed_tasks.executor.claiming.unknown_codes import UnknownCodes
from django_delayed_tasks.executor.inflight import InFlight
from django_delayed_tasks.executor.limits.clearing import Clearing
from django_delayed_tasks.executor.limits.gate import Gate
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.running.batches import missing_in_batch
from django_delayed_tasks.executor.threads import connections
from django_delayed_tasks.store.claiming.agenda import Agenda, Level, read_agenda
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import ClaimRequest, Outpaced
from django_delayed_tasks.store.claiming.strategies import strategy_for
from django_delayed_tasks.store.settling.settlement import Settlement, released

logger = logging.getLogger(__name__)

FRESH = 0.05
"""Seconds for which an agenda counts as current; after that, tasks of other levels may have become due.

Each agenda is claimed from at least once, however old it is: with very many levels, reading it takes longer than this.
"""


class Poller:
    """Claims tasks for one executor, level by level of the agenda.

    ``deliver(tasks)`` takes the tasks that were claimed, ``release(settlements)`` those that cannot be run here now.
    """

    def __init__(
        self,
        options: ExecutorOptions,
        lease: Lease,
        inflight: InFlight,
        screening: UnknownCodes,
        rank: Peers,
        database_clock: clock.DatabaseClock,
        deliver: Callable[[list[ClaimedTask]], None],
        release: Callable[[list[Settlement]], None],
        gate: Gate | None = None,
        lookahead: Lookahead | None = None,
    ) -> None:
        self.lookahead = lookahead
        self._ahead = timedelta()
        self._gate = gate
        self._clearing = Clearing(options.database, gate) if gate else None
        self._options = options
        self._alias = options.database
        self._lease = lease
        self._inflight = inflight
        self._screening = screening
        self._rank = rank
        self._clock = database_clock
        self._deliver = deliver
        self._release = release
        self.release_now = release
        """Like ``release``, but the tasks are released when it returns."""
        self.demand = Demand(inflight, options.threads, options.batch_size)
        self._claim = strategy_for(options.database, options.claim)
        self._agenda: Agenda | None = None
        self._agenda_read = float("-inf")
        self._is_unused = False
        """Whether the agenda has not been claimed from since it was read."""
        self.sweeps = Sweeps()
        self._suspects = CrashSuspects(options.max_rescues)
        self._forgotten = LostClaims(options.database, lease, inflight, release)
        self._was_sweep = False
        self._turns = RoundRobin()
        self._memory = AgendaMemory()
        self._rivals = Rivals()
        self.found_nothing = False

    def poll(self) -> float:
        """Claim as many due tasks as are wanted; return the seconds until the next poll is worthwhile."""
        interval = self._options.poll_interval
        self.found_nothing = False
        self._rivals.begin()
        if not self._lease.may_claim or self.has_enough:
            return interval
        wanted = self.demand.wanted()
        if not wanted:
            return interval
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
        return None if most is None else max(0, most - self._inflight.claimed)

    def _note_nothing(self, claimed: int) -> None:
        """Note whether this poll found nothing: only a full scan proves that nothing is left below the watermarks."""
        self._rivals.note(claimed)
        is_nothing = not claimed and not self._rivals.may_have_left_some
        self.sweeps.is_idle = is_nothing
        self.found_nothing = is_nothing and self._was_sweep
        if self._options.drain and is_nothing and not self._was_sweep:
            self._memory.forget()

    def _read_agenda(self) -> None:
        self._forgotten.look(at_once=self._agenda is None)
        known = None if not self.sweeps.seconds_until_next() else self._memory.recall()
        self._was_sweep = known is None
        began = clock.monotonic()
        agenda = read_agenda(self._alias, known)
        self._clock.set(agenda.now, began)
        self._agenda, self._agenda_read = agenda, clock.monotonic()
        if self.lookahead:
            self.lookahead.note_reading(self._agenda_read - began)
            self._ahead = self.lookahead.length
        if self._was_sweep:
            self.sweeps.note(began, self._agenda_read - began)
        self._memory.learn(agenda)
        due = (level for level in agenda.due(self._ahead) if self._options.serves(level.queue))
        self._turns.begin(due, agenda.now)
        self._is_unused = True

    def _claim_from_levels(self, wanted: int) -> int:
        """Claim up to ``wanted`` tasks, the highest priority first, round robin among equals; return the number."""
        age = clock.monotonic() - self._agenda_read
        if not self._is_unused and age >= min(FRESH, self._options.poll_interval):
            self._turns.clear()
        self._is_unused = False
        claimed = 0
        while claimed < wanted and (level := self._turns.next()):
            share = self._turns.share(wanted - claimed)
            tasks = self._claim_from(level, share)
            claimed += len(tasks)
            self._turns.took(len(tasks), share)
        return claimed

    def _claim_from(self, level: Level, limit: int) -> list[ClaimedTask]:
        if (allowance := self._allowance()) is not None:
            limit = min(limit, allowance)
        if not limit:
            return []
        request = self._request(level, limit, self._full(level))
        began = clock.monotonic()
        self._forgotten.may_come()
        tasks = self._won(request)
        if tasks:
            self._rivals.were_slower()
            tasks += self._fill_batch(tasks, request)
            self._inflight.add(tasks)
            self._note_claim(tasks, clock.monotonic() - began, request.ahead)
            known, refused = self._screening.screen(tasks)
            # A drain ends when nothing is due, so it would leave postponed tasks behind.
            chosen, apart = (known, []) if self._options.drain else self._set_apart(known)
            self._release(refused)
            self._let_go(apart, chosen)
            self._deliver(chosen)
        return tasks

    def _won(self, request: ClaimRequest) -> list[ClaimedTask]:
        try:
            return self._claim(self._alias, request)
        except Outpaced:
            self._rivals.were_quicker()
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
            connections.discard_unusable(self._alias)
            return []

    def _note_claim(self, tasks: list[ClaimedTask], took: float, ahead: timedelta) -> None:
        if self.lookahead:
            self.lookahead.note_claim(took)
            if ahead:
                self.lookahead.mark(tasks)

    def _set_apart(self, tasks: list[ClaimedTask]) -> tuple[list[ClaimedTask], list[Settlement]]:
        if not any(task.rescues for task in tasks):
            return tasks, []
        return self._suspects.set_apart(tasks)

    def _let_go(self, apart: list[Settlement], chosen: list[ClaimedTask]) -> None:
        """Release the other crash suspects before a chosen task starts: it may crash the process."""
        try:
            if apart:
                self.release_now(apart)
        except BaseException:
            self._release(apart + [released(task) for task in chosen])
            raise

    def _request(self, level: Level, limit: int, full: frozenset[str] = frozenset()) -> ClaimRequest:
        rank, executors = self._rank.among(level.queue)
        return ClaimRequest(
            self._lease.executor, level.queue, level.priority, limit,
            floor=floor_of(level), excluded=self._screening.excluded() | full,
            rank=rank, executors=executors, ahead=self._ahead_of(level),
            rescues_below=None if self._options.drain else self._suspects.claimable_below(self._inflight),
        )  # fmt: skip

    def _ahead_of(self, level: Level) -> timedelta:
        return self._ahead if self._agenda and level.earliest > self._agenda.now else timedelta()

    def _full(self, level: Level) -> frozenset[str]:
        """Return the codes of which enough tasks already wait here for their limits.

        Further tasks of these codes are postponed when they are in the way of others.
        """
        if self._gate is None or self._gate.has_never_been_used:
            return frozenset()
        if self._clearing and not self._options.drain:
            self._clearing.clear(self._request(level, 0))
        return self._gate.full()

    def _until_next(self) -> float:
        return min(self._rivals.pause(), self._until_due())

    def _until_due(self) -> float:
        interval = self._options.poll_interval
        if not self._agenda:
            return interval
        if not self._was_sweep:
            # Whatever woke this executor may be visible to a full scan only.
            interval = min(interval, self.sweeps.seconds_until_next())
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
        self._turns.clear()
        self._agenda = None
        self._memory.forget()
