"""Claims tasks of limited handlers (``max_concurrent``, ``rate``, ``pool``): each with its permits, or not at all."""

import random
from datetime import timedelta
from math import inf
from typing import Final, NamedTuple

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
from django_delayed_tasks.executor.room.claimant import Demand, Kind
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
MAX_IDLE: Final = 1.0
"""Seconds at most until those that claim ask again whether the lease has been renewed: nothing wakes them for that."""
TURNS: Final = 8
"""Claims in a row for one priority, until the agenda and the ends of runs are looked at again."""
SEARCH_EVERY: Final = 2.5
"""Seconds between two searches for blocked tasks whose executor died before it could claim the next task of their key.
Places that two searches in a row find unchanged are read. Slow searches take a hundredth of the time."""


class Turn(NamedTuple):
    """The outcome of a turn of one code.

    Attributes:
        pause: seconds until it may have more; 0 if something was done or found out.
        wants_room: whether it could use more room: it has taken all of its share, or there was none.
        lost_race: whether other executors were faster, so that it is about to try again.
    """

    pause: float
    wants_room: bool = False
    lost_race: bool = False


class Served(NamedTuple):
    """The outcome of the turns of all codes.

    Attributes:
        seconds: the seconds until each may have more, if nothing happens before.
        lacks: the tasks that had no turn, since more urgent ones could use all the room.
    """

    seconds: list[float]
    lacks: list[Demand]


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
        self._claimant = held.capacity.limited
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
            self._claimant.expect(tuple(map(self._demand, new)))
        self._agenda = agenda
        if places and not self._options.ends_by_itself:  # which looks at them in any case
            self._claimant.wake.set()

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
        self._claimant.begin()
        served = self._serve_in_turn(due)
        lacks = (*served.lacks, *(demand for lane in due if (demand := self._lacking(lane))))
        self._claimant.lack(lacks, MAX_IDLE)
        if self._agenda is self._noted:  # otherwise it has yet to look at the latest one
            self._claimant.looked()
        if not lacks:
            self._claimant.rest()
        for lane in due:
            self._restock(lane)
        waits = [lane.seconds_until_timer() for lane in self._lanes.values()]
        return min(MAX_IDLE, self._search_at - clock.monotonic(), *served.seconds, *waits)

    def forget(self) -> None:
        """Forget what may be wrong after an error; the next agenda shows what is due."""
        self._claimant.lack((), 0.0)
        self._claimant.looked()
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
        return self._is_ours(place) and (self._claimant.is_first or not self._claimant.yields(self._demand(place)))

    def _demand(self, place: Place) -> Demand:
        code = code_of(place.lane)
        lane = self._lanes.get(code)
        return Demand(kind_of(find(code)), place.priority, lane.served_at if lane else -inf, code)

    def _lacking(self, lane: Lane) -> Demand | None:
        """Return the tasks of a lane that lack nothing but room, or were passed over; None if there are none."""
        has_room = self._room_for(lane) > 0 and not self._claimant.is_held_back
        if has_room or lane.seconds_until_permits():
            return None
        places = lane.to_read(1, self._is_ours)
        return self._demand(max(places, key=lambda place: place.priority)) if places else None

    def _serve_in_turn(self, due: list[Lane]) -> Served:
        """Claim tasks of codes that have some; threads and the event loop are room of two kinds."""
        served = Served([wait for lane in due if (wait := lane.seconds_until_permits())], [])
        ready = [lane for lane in due if not lane.seconds_until_permits()]
        for kind in Kind:
            self._serve_by_priority(kind, [lane for lane in ready if kind_of(lane.handler) is kind], served)
        return served

    def _serve_by_priority(self, kind: Kind, lanes: list[Lane], served: Served) -> None:
        """Claim the tasks of the highest priority first; lower ones have what these leave of the room."""
        levels: dict[int, list[Lane]] = {}
        for lane in lanes:
            for priority in lane.priorities:
                levels.setdefault(priority, []).append(lane)
        takes_all = False
        for priority in sorted(levels, reverse=True):
            if takes_all:
                served.lacks.extend(Demand(kind, priority, lane.served_at, lane.code) for lane in levels[priority])
                continue
            turns = self._share(Demand(kind, priority), levels[priority])
            served.seconds.extend(turn.pause for turn in turns)
            takes_all = any(turn.wants_room for turn in turns)

    def _share(self, demand: Demand, lanes: list[Lane]) -> list[Turn]:
        """Let codes of equal priority share the room in turn, again and again while one of them may have more.

        While one of them is about to try again, after a lost race, the others leave it its share. Return the last turn
        of each.
        """
        turns = dict.fromkeys(lanes, Turn(0.0))
        for _ in range(max(2, TURNS // len(lanes))):
            shares = {lane: self._claimant.share(demand, self._room_for(lane), len(lanes)) for lane in lanes}
            for lane in sorted(lanes, key=lambda lane: lane.served_at):
                turns[lane] = self._serve(lane, demand.priority, shares[lane])
            lanes = [lane for lane in lanes if not turns[lane].pause]
            if not lanes or any(turn.lost_race for turn in turns.values()):
                break
        return list(turns.values())

    def _room_for(self, lane: Lane) -> int:
        return self._capacity.room_for(lane.handler)

    def _serve(self, lane: Lane, priority: int, share: int) -> Turn:
        """Claim tasks of one code and priority, in its share of the room."""

        def serves(place: Place) -> bool:
            return place.priority == priority and self.serves(place)

        room = min(share, self._room_for(lane))
        places = lane.to_read(max(1, room), serves)
        if not places or room <= 0:
            return Turn(lane.seconds_until_permits() or MAX_IDLE, wants_room=bool(places))
        began = clock.monotonic()
        try:
            turn = self._claim(lane, places, room)
        except Outpaced:
            lane.note_outpaced()
            return Turn(random.uniform(0, AGAIN), lost_race=True)
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
