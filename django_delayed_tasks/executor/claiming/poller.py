"""Claims due tasks level by level, and reads the agenda when it knows of no more (docs/explanation/claiming.md)."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Event

from django.db import Error

from django_delayed_tasks import clock
from django_delayed_tasks.executor.admission import Admission
from django_delayed_tasks.executor.claiming.agenda_reader import AgendaReader
from django_delayed_tasks.executor.claiming.due_levels import DueLevels
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.limits.lanes import AGAIN, Lanes
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.membership.peers import ALONE, Peers
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.capacity import Room, kind_in
from django_delayed_tasks.executor.room.claimer import MAX_IDLE, Demand, Kind, Turn, order
from django_delayed_tasks.executor.running.run_queue import RunQueue, missing_in_batch
from django_delayed_tasks.executor.starting import Starting
from django_delayed_tasks.executor.unanswered_claims import UnansweredClaims
from django_delayed_tasks.store.claiming.agenda import Agenda, Level
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import ClaimRequest, Outpaced, watermark
from django_delayed_tasks.store.claiming.strategies import strategy_for
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

MAX_LOST_RACES = 10
"""Lost races in a row after which this executor no longer expects tasks to remain for it."""


MIN_SHARE = 32
"""The smallest share of a level, however many other levels are due: each claim costs a statement."""


@dataclass(slots=True)
class Poll:
    """One poll: what it claims by, and the room that is left.

    Attributes:
        claimed: the numbers of tasks that were claimed.
        taken: the kinds of room that a level was given none of, so that less urgent ones get none either.
    """

    claim: Callable[[Level, int], list[ClaimedTask]]
    demand: Callable[[Level], Demand]
    left: Room
    claimed: dict[Kind, int] = field(default_factory=dict)
    taken: set[Kind] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class PlainLevel:
    """The tasks of a level without limits, in their turn."""

    level: Level
    is_ahead: bool
    poll: Poll
    demand: Demand
    least: int = MIN_SHARE

    def room(self) -> int:
        """See :class:`Source`."""
        return self.poll.left.of(self.level.lane)

    def claim(self, count: int) -> Turn:
        """See :class:`Source`."""
        poll, lane = self.poll, self.level.lane
        if not count:
            poll.taken.add(kind_in(lane))
            return Turn(MAX_IDLE, wants_room=True)
        if claimed := len(poll.claim(self.level, count)):
            kind = kind_in(lane)
            poll.claimed[kind] = poll.claimed.get(kind, 0) + claimed
            poll.left = poll.left.without(lane, claimed)
        self.demand = poll.demand(self.level)  # it was served now
        return Turn(0.0, wants_room=True) if claimed >= count else Turn(MAX_IDLE)


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
        admission: Admission,
        starting: Starting,
        lanes: Lanes,
        reader: AgendaReader,
        unanswered: UnansweredClaims,
    ) -> None:
        self._options = options
        self._ends_by_itself = options.ends_by_itself
        self._serves_all = options.serves_all
        self._lease = lease
        self._held = held
        self._capacity = held.capacity
        self._claimer = held.capacity.plain
        self._peers = peers
        self._queue = queue
        self._admission = admission
        self._starting = starting
        self._lanes = lanes
        self.reader = reader
        self._claim = strategy_for(options.database, options.claim)
        self._claims_as: int | None = None
        self._levels = DueLevels(options.poll_interval)
        self._unanswered = unanswered
        self._agenda: Agenda | None = None
        self._read_at = float("-inf")
        self._ahead = timedelta()
        self._was_outpaced = False
        self._lost_races = 0
        self._may_have_left_some = False
        self._is_idle = False
        self.found_nothing = False
        self.drained = Event()

    def poll(self) -> float:
        """Claim as many due tasks as are wanted; return the seconds until the next poll is worthwhile."""
        if not self._ends_by_itself:
            return self._poll()
        # Checked before the poll: a run that is settled during the poll may have added a task, and what the poll claims
        # has yet to be run. So may have another executor that is declared dead during the poll.
        had_nothing, had_enough = not len(self._held), not self._capacity.allowed
        has_all = not self._peers.have_lapsed(self.reader.clock.now())
        seconds = min(self._poll(), self._lanes.tick())
        if had_nothing and (had_enough or (self._options.drain and has_all and self.found_nothing)):
            self.drained.set()
        is_ending = (self._options.drain or not self._capacity.allowed) and not self.drained.is_set()
        return min(seconds, AGAIN) if is_ending else seconds

    def _poll(self) -> float:
        self.found_nothing = self._was_outpaced = False
        self._claimer.begin()
        if self._claims_as != self._lease.executor:
            self._drop_lost()
        if clock.monotonic() >= self._lease.claims_until:
            return min(self._options.poll_interval, MAX_IDLE)
        self._unanswered.look()
        room = self._capacity.room()
        if not room.total:
            self._read_for_lanes()
            return self._options.poll_interval
        claimed = self._claim_from_levels(room)
        if not claimed:
            self._read_agenda()
            claimed = self._claim_from_levels(room)
            if not self._claimer.is_held_back:
                self._note_nothing(sum(claimed.values()))
        self._lack(self._levels.due)
        if claimed:
            found_more = Kind.LOOP in claimed and self._capacity.room_on_loop
            return 0.0 if found_more or self._capacity.wants_more else self._options.poll_interval
        if self._claimer.is_held_back:
            return self._yield(room)
        if self._may_have_left_some:
            return min(random.uniform(0, AGAIN), self._until_due())
        if room.threads and room.loop:
            self._claimer.rest()
        return self._until_due()

    def _yield(self, room: Room) -> float:
        """Sleep until the tasks with limits, which come first, have found room."""
        if not self._claimer.has_to_wait:
            return 0.0
        if room.threads and room.loop:
            self._claimer.rest()
        return min(self._until_due(), MAX_IDLE)  # nothing wakes it if the other one hangs

    def _lack(self, levels: list[Level]) -> None:
        """Note levels that are due and were not claimed from: less urgent tasks with limits do not take their room."""
        first: dict[Kind, Demand] = {}
        for demand in map(self._demand, levels):
            known = first.get(demand.kind, demand)
            first[demand.kind] = min(known, demand, key=order)
        self._claimer.lack(tuple(first.values()), self._options.poll_interval)

    def _demand(self, level: Level) -> Demand:
        return Demand(kind_in(level.lane), level.priority, self._levels.served_at(level))

    def _drop_lost(self) -> None:
        """Drop claims that have not started if this executor was declared dead: other executors own them now.

        Those that the last poll has made under the new id are released: no other executor would reap them.
        """
        before, self._claims_as = self._claims_as, self._lease.executor
        if before is not None:
            waiting = self._queue.take_back()
            self._held.drop(task for task in waiting if task.executor != self._claims_as)
            self._held.release(task for task in waiting if task.executor == self._claims_as)

    def _note_nothing(self, claimed: int) -> None:
        """Note whether this poll found nothing: only a full scan proves that nothing is left below the watermarks."""
        self._lost_races = self._lost_races + 1 if self._was_outpaced and not claimed else 0
        self._may_have_left_some = 0 < self._lost_races <= MAX_LOST_RACES
        is_nothing = not claimed and not self._may_have_left_some
        if is_nothing and self._options.drain and self._agenda is not None:
            is_nothing = not self._lanes.has_due(self._agenda)
        is_complete = self._agenda is not None and self._agenda.is_complete
        self._is_idle = is_nothing
        self.found_nothing = is_nothing and is_complete
        if self._options.drain and is_nothing and not is_complete:
            self.reader.forget()

    def _read_agenda(self) -> None:
        self._agenda = agenda = self.reader.read(self._is_idle)
        self._read_at = clock.monotonic()
        self._ahead = self.reader.lookahead.length
        self._levels.begin(self._due(agenda, self._ahead), agenda.now)
        self._lanes.show(agenda)

    def _due(self, agenda: Agenda, ahead: timedelta = timedelta()) -> list[Level]:
        return self._served(agenda.due(ahead))

    def _served(self, levels: list[Level]) -> list[Level]:
        """Return the levels of the queues that this executor serves."""
        return levels if self._serves_all else [level for level in levels if self._options.serves(level.queue)]

    def _read_for_lanes(self) -> None:
        """Show the lanes what is due, and which queues are paused, although there is no room for anything else."""
        if self._read_at + self._options.poll_interval <= clock.monotonic():
            agenda = self.reader.read(self._is_idle)
            self._read_at = clock.monotonic()
            self._lack(self._due(agenda))
            self._lanes.show(agenda)

    def _claim_from_levels(self, room: Room) -> dict[Kind, int]:
        """Claim tasks of levels that are due, in the order of their turns; return their numbers."""
        poll = Poll(self._claim_level, self._demand, room)
        turns = self._claimer.serve(self._portions(poll))
        # Those that were passed over come first when they need not yield any more.
        is_unused = not poll.claimed and self._claimer.is_held_back
        self._levels.put_back([plain.level for plain, turn in turns.items() if turn.wants_room], is_unused)
        return poll.claimed

    def _portions(self, poll: Poll) -> Iterator[list[PlainLevel]]:
        """Yield no more levels than may find room: there may be thousands."""
        while levels := self._levels.take(poll.left, but=poll.taken):
            yield [PlainLevel(level, self._levels.is_ahead(level), poll, self._demand(level)) for level in levels]

    def _claim_level(self, level: Level, count: int) -> list[ClaimedTask]:
        tasks = self._claim_from(self._request(level, count))
        self._levels.note_served(level)
        return tasks

    def _claim_from(self, request: ClaimRequest) -> list[ClaimedTask]:
        began = clock.monotonic()
        self._unanswered.note_try()
        tasks = self._won(request)
        if tasks:
            self._lost_races = 0
            if len(tasks) == request.limit:
                tasks += self._fill_batch(tasks, request)
            self.reader.lookahead.note_claim(clock.monotonic() - began)
            if request.ahead:
                self.reader.lookahead.mark(tasks)
            self._starting.start(tasks, request.lane, began)
        return tasks

    def _request(self, level: Level, limit: int) -> ClaimRequest:
        place, executors = self._peers.among(level.queue) if self._peers.others else ALONE
        is_early = self._agenda is not None and level.earliest > self._agenda.now
        request = ClaimRequest(
            self._lease.executor, level.queue, level.priority, limit, watermark=watermark(level.earliest),
            place=place, executors=executors, ahead=self._ahead if is_early else timedelta(), lane=level.lane,
        )  # fmt: skip
        return self._admission.narrow(request) if self._admission.has_refused else request

    def _won(self, request: ClaimRequest) -> list[ClaimedTask]:
        try:
            return self._claim(self._options.database, request)
        except Outpaced:
            self._was_outpaced = True
            return []

    def _fill_batch(self, tasks: list[ClaimedTask], request: ClaimRequest) -> list[ClaimedTask]:
        """Claim more tasks of this code to fill the batch: they take no further thread."""
        missing = min(missing_in_batch(tasks), self._capacity.allowed - len(tasks))
        if missing <= 0:
            return []
        try:
            return self._won(replace(request, limit=missing, only=tasks[0].biz_code))
        except Error:
            # The tasks that are already claimed must not be lost.
            logger.warning("claiming more of %s failed", tasks[0].biz_code, exc_info=True)
            return []

    def _until_due(self) -> float:
        interval = self._options.poll_interval
        if not self._agenda:
            return interval
        if not self._agenda.is_complete:
            # Whatever woke this executor may be visible to a full scan only.
            interval = min(interval, self.reader.seconds_until_full_scan(self._is_idle))
        served = self._served([*self._agenda.levels, *self._agenda.lanes])
        future = [level.earliest for level in served if level.earliest > self._agenda.now]
        if not future:
            return interval
        soonest = min(future)
        # If it could have been claimed ahead and was not, another executor has claimed it, or this one cannot run it.
        ahead = self._ahead if soonest > self._agenda.now + self._ahead else timedelta()
        return max(0.0, min(interval, (soonest - ahead - self.reader.clock.now()).total_seconds()))

    def forget(self) -> None:
        """Forget everything that was read: after an error none of it can be relied on."""
        self._levels.forget()
        self._agenda = None
        self._unanswered.note_lost()
        self.reader.forget()
        if self._ends_by_itself:
            self._lanes.forget()
