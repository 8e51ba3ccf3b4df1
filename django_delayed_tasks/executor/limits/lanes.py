"""Claims tasks of limited handlers (``max_concurrent``, ``rate``, ``pool``): each with its permits, or not at all."""

import random
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Final

from django_delayed_tasks import clock
from django_delayed_tasks.executor import project
from django_delayed_tasks.executor.admission import Admission
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.limits.lane import Lane
from django_delayed_tasks.executor.limits.permits import Permits
from django_delayed_tasks.executor.limits.runs import LaneRuns
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.capacity import kind_of
from django_delayed_tasks.executor.room.claimer import MAX_IDLE, Demand, Turn
from django_delayed_tasks.executor.starting import Starting
from django_delayed_tasks.executor.unanswered_claims import UnansweredClaims
from django_delayed_tasks.handlers import find, find_function
from django_delayed_tasks.store.claiming.agenda import FRESH, Agenda, Level, blocked_levels
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import Outpaced
from django_delayed_tasks.store.limits.claiming import ClaimChoice, ClaimResult, Place, claim_chosen, read_places
from django_delayed_tasks.store.settling.settlement import LOOK_AGAIN
from django_delayed_tasks.store.sql.lanes import code_of

AGAIN: Final = 0.02
"""Seconds at most before another attempt after a lost race, so that executors do not collide again, and in a drain."""
LOST: Final = 0.2
"""The same when only permits were lost: they may be locked for long by an executor that was stopped."""
SEARCH_EVERY: Final = 2.5
"""Seconds between two searches for blocked tasks whose executor died before it could claim the next task of their key.
Places that two searches in a row find unchanged are read. Slow searches take a hundredth of the time."""


@dataclass(slots=True, eq=False)
class LaneLevel:
    """The tasks of one limited code and priority, in their turn."""

    lanes: "Lanes"
    lane: Lane
    priority: int
    least: int = 1
    is_ahead: bool = False

    @property
    def demand(self) -> Demand:
        """See :class:`Source`."""
        return Demand(kind_of(self.lane.handler), self.priority, self.lane.served_at, self.lane.code)

    def room(self) -> int:
        """See :class:`Source`."""
        return self.lanes.room_for(self.lane)

    def claim(self, count: int) -> Turn:
        """See :class:`Source`."""
        return self.lanes.claim(self.lane, self.priority, count)


class Lanes:
    """Claims the tasks of all limited codes; :meth:`tick` is one iteration of its loop.

    The poller reads the agenda and shows it here.
    """

    def __init__(
        self,
        options: ExecutorOptions,
        lease: Lease,
        held: Held,
        admission: Admission,
        starting: Starting,
        peers: Peers,
        unanswered: UnansweredClaims,
        database_clock: clock.DatabaseClock,
    ) -> None:
        self._options = options
        self._alias = options.database
        self._lease = lease
        self._held = held
        self._capacity = held.capacity
        self._claimer = held.capacity.limited
        self._admission = admission
        self._starting = starting
        self._peers = peers
        self._unanswered = unanswered
        self._clock = database_clock
        self._lanes: dict[str, Lane] = {}
        self._unknown: dict[str, float] = {}
        self._expected_at: dict[Place, float] = {}
        self._agenda: Agenda | None = None
        self._noted: Agenda | None = None
        self._paused: frozenset[str] = frozenset()
        self._search_at = float("-inf")
        self._found: list[Level] = []

    def show(self, agenda: Agenda) -> None:
        """Take the latest agenda; wake the thread of the lanes if one of them has due tasks. Thread-safe.

        Less urgent tasks that this agenda shows wait until they have looked at it.
        """
        if places := [Place(level.lane, *level[:2]) for level in agenda.lanes if level.earliest <= agenda.now]:
            now = clock.monotonic()
            self._expected_at = {place: at for place, at in self._expected_at.items() if now <= at + FRESH}
            new = [place for place in places if place not in self._expected_at and self._may_run(place)]
            self._expected_at |= dict.fromkeys(new, now)
            self._claimer.expect(tuple(map(self._demand, new)))
        self._agenda = agenda
        if places and not self._options.ends_by_itself:  # which looks at them in any case
            self._claimer.wake.set()

    def _may_run(self, place: Place) -> bool:
        """Return whether tasks of this place may run, and it is not known that there are some.

        Its queue is served here, and there may be a handler and permits for them.
        """
        code = code_of(place.lane)
        is_unknown = clock.monotonic() < self._unknown.get(code, -inf)
        if is_unknown or not self._options.serves(place.queue):
            return False
        lane = self._lanes.get(code)
        return lane is None or not (lane.seconds_until_permits() or lane.is_open(place.queue, place.priority))

    def has_due(self, agenda: Agenda) -> bool:
        """Return whether a lane that is served here has due tasks, blocked ones too; for the end of a drain."""
        open_ones = (Place(level.lane, *level[:2]) for level in agenda.lanes if level.earliest <= agenda.now)
        return any(self._is_ours(place) for place in open_ones) or self._search(is_drain=True)

    def tick(self) -> float:
        """Claim what may run; return the seconds until the next tick is worthwhile."""
        self._note_agenda()
        for lane in self._lanes.values():
            lane.note_ends(self._held.__contains__)
            lane.wake()
        if clock.monotonic() >= self._lease.claims_until:
            return MAX_IDLE
        if clock.monotonic() >= self._search_at:
            self._search()
        due = [lane for lane in self._lanes.values() if lane.open or lane.freed]
        self._claimer.begin()
        waits = {lane: lane.seconds_until_permits() for lane in due}
        ready = [LaneLevel(self, lane, priority) for lane in due if not waits[lane] for priority in lane.priorities]
        turns = self._claimer.serve([ready])
        lacks = tuple(level.demand for level, turn in turns.items() if turn.wants_room)
        self._claimer.lack(lacks, MAX_IDLE)
        if self._agenda is self._noted:  # otherwise it has yet to look at the latest one
            self._claimer.looked()
        if not lacks:
            self._claimer.rest()
        for lane in due:
            self._restock(lane)
        pauses = [*filter(None, waits.values()), *(turn.pause for turn in turns.values())]
        timers = [lane.seconds_until_timer() for lane in self._lanes.values()]
        return min(MAX_IDLE, self._search_at - clock.monotonic(), *pauses, *timers)

    def forget(self) -> None:
        """Forget what may be wrong after an error; the next agenda shows what is due."""
        self._claimer.lack((), 0.0)
        self._claimer.looked()
        for lane in self._lanes.values():
            lane.forget()

    def _lane_of(self, place: Place) -> Lane | None:
        """Return the lane of a code that has a handler here, even if that is not limited any more."""
        code = code_of(place.lane)
        known, handler = self._lanes.get(code), find(code) if self._knows(place) else None
        if handler and (known is None or known.handler is not handler):
            runs = LaneRuns()
            permits = Permits(self._alias, handler, self._held, runs, timedelta(seconds=self._options.lease))
            self._lanes[code] = Lane(
                handler, permits, runs, self._options.max_rescues, self._options.serves(handler.queue)
            )
        return self._lanes[code] if handler else None

    def _knows(self, place: Place) -> bool:
        """Return whether the code of the place has a handler here; that of a function may have to be imported."""
        code = code_of(place.lane)
        if find(code) is None and clock.monotonic() >= self._unknown.get(code, float("-inf")):
            found = read_places(self._alias, self._lease.executor, {place: 1})[place]
            if found:
                project.attempt(f"the import of {code}", find_function, found[0])
            if found and find(code) is None:
                self._unknown[code] = clock.monotonic() + LOOK_AGAIN
                self._admission.runs_elsewhere(found[0])
        return find(code) is not None

    def _note_agenda(self) -> None:
        agenda = self._agenda
        if agenda is None or agenda is self._noted:
            return
        self._noted = agenda
        self._paused = agenda.paused
        for lane in self._lanes.values():
            lane.open.clear()
        for level in agenda.lanes:
            is_due = level.earliest <= agenda.now and self._options.serves(level.queue)
            if is_due and (shown := self._lane_of(Place(level.lane, *level[:2]))):
                shown.show(level)

    def _search(self, is_drain: bool = False) -> bool:
        """Look for blocked tasks; return whether there are any to run here.

        Those that have not changed since the last search may have a permit that no executor knows to be free; a drain
        looks at all of them.
        """
        began = clock.monotonic()
        before, self._found = set(self._found), blocked_levels(self._alias)
        places = {Place(level.lane, *level[:2]): level in before for level in self._found}
        ours = {place: is_unchanged for place, is_unchanged in places.items() if self._is_ours(place)}
        for place, is_unchanged in ours.items():
            if (is_unchanged or is_drain) and (lane := self._lane_of(place)):
                lane.note_found(place)
        took = clock.monotonic() - began
        self._search_at = clock.monotonic() + random.uniform(0.75, 1.25) * max(SEARCH_EVERY, 100 * took)
        return bool(ours)

    def _is_ours(self, place: Place) -> bool:
        is_served = self._options.serves(place.queue) and place.queue not in self._paused
        return is_served and self._knows(place)

    def serves(self, place: Place) -> bool:
        """Return whether tasks of this place may be claimed here now. Thread-safe."""
        return self._is_ours(place) and not self._claimer.passes_over(self._demand(place))

    def _demand(self, place: Place) -> Demand:
        code = code_of(place.lane)
        lane = self._lanes.get(code)
        return Demand(kind_of(find(code)), place.priority, lane.served_at if lane else -inf, code)

    def room_for(self, lane: Lane) -> int:
        """Return how many tasks of a lane find room now."""
        return self._capacity.room_for(lane.handler)

    def claim(self, lane: Lane, priority: int, count: int) -> Turn:
        """Claim up to ``count`` tasks of one code and priority; with 0 only say whether there may be some."""

        def serves(place: Place) -> bool:
            return place.priority == priority and self._is_ours(place)

        places = lane.to_read(max(1, count), serves)
        if not places or not count:
            return Turn(lane.seconds_until_permits() or MAX_IDLE, wants_room=bool(places))
        began = clock.monotonic()
        try:
            turn = self._claim(lane, places, count)
        except Outpaced:
            lane.note_outpaced()
            return Turn(random.uniform(0, AGAIN), wants_room=True, lost_race=True)
        self._capacity.note_claim(clock.monotonic() - began)
        return turn

    def _claim(self, lane: Lane, places: dict[Place, int], room: int) -> Turn:
        """Claim up to ``room`` tasks of these places with their permits, and block those without."""
        executor, freed = self._lease.executor, len(lane.freed)
        read = read_places(self._alias, executor, places, self._admission.rescues_below)
        plan = lane.plan(places, read, room, self._clock.now())
        began = clock.monotonic()
        written = self._written(executor, plan.choice)
        lane.begin(plan, written)
        self._starting.start_permitted(written.won, began, plan.ends)
        lane.learn(plan, written, self._pause())
        if written.won or written.blocked or len(lane.freed) < freed:
            return Turn(0.0, wants_room=len(written.won) >= room)
        if not plan.choice.tasks:
            return Turn(max(self._pause(), lane.seconds_until_permits()))
        return Turn(max(random.uniform(0, AGAIN if written.passed else LOST), lane.seconds_until_permits()))

    def _restock(self, lane: Lane) -> None:
        """Read tasks that are the next to get the slots of runs that end, if many do."""
        if (places := lane.to_stock(self.serves)) and self._capacity.expected_ends(lane.handler):
            found = read_places(self._alias, self._lease.executor, places, self._admission.rescues_below)
            ends, keys = lane.examine(lane.without_passed(found), self._clock.now())
            if not ends:  # which are noticed when a slot is free
                self._fill(lane, list(keys))

    def _fill(self, lane: Lane, tasks: list[ClaimedTask]) -> None:
        """Fill the stock of the lane; other executors prefer other tasks."""
        if tasks and not self._options.ends_by_itself:
            place, executors = self._peers.among(tasks[0].queue)
            lane.stock.fill([task for task in tasks if task.id % executors == place] or tasks)

    def get(self, code: str) -> Lane | None:
        """Return the lane of a code. Thread-safe."""
        return self._lanes.get(code)

    def _written(self, executor: int, chosen: ClaimChoice) -> ClaimResult:
        won: set[ClaimedTask] = set()
        try:
            with self._held.claiming.lanes:
                if clock.monotonic() >= self._lease.claims_until:  # permits may be free because this executor stops
                    return ClaimResult([], [], set())
                written = claim_chosen(self._alias, executor, chosen)
                self._held.add(written.won, is_limited=True)
            won.update(written.won)
        except BaseException:
            self._unanswered.note_lost()
            self._capacity.plain.wake.set()
            raise
        finally:
            for task in set(chosen.tasks).difference(won):
                self._held.free_resource(task)
        return written

    def _pause(self) -> float:
        """Return the seconds until another look for permits that other executors hold."""
        return self._options.poll_interval * random.uniform(0.5, 1.0)
