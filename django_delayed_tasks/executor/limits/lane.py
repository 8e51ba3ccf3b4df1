"""One limited code: where its tasks wait, which of its runs are here, and when to look for the next ones."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from django_delayed_tasks import clock
from django_delayed_tasks.executor.limits.permits import PermitDecision, Permits
from django_delayed_tasks.executor.limits.runs import LaneRuns
from django_delayed_tasks.executor.limits.stock import ENOUGH, Stock
from django_delayed_tasks.executor.running.deciding import raised, rescue_settlement
from django_delayed_tasks.executor.running.run import failed, refusal
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.store.claiming.agenda import Level
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, claimable_at
from django_delayed_tasks.store.claiming.request import watermark
from django_delayed_tasks.store.limits.claiming import ClaimChoice, ClaimResult, Found, Place
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.store.sql.lanes import blocked_lane, open_lane
from django_delayed_tasks.store.sql.portions import MAX_PARTS, PORTION


class ClaimPlan(NamedTuple):
    """The tasks that a lane is about to claim, and what that was decided by.

    Attributes:
        places: the places that were read, with the number of tasks that was asked of each.
        read: the tasks that were found there.
        ends: those that end without a run.
        permitted: those of the others that have permits, and those that are refused.
        choice: what is to be written.
    """

    places: Mapping[Place, int]
    read: Found
    ends: dict[ClaimedTask, Settlement]
    permitted: PermitDecision
    choice: ClaimChoice


class Lane:
    """The tasks of one limited code, as far as this executor knows of them.

    Attributes:
        open: the levels of the open lane that have due tasks.
        freed: the places whose blocked tasks may have a permit now.
        resumes_at: the monotonic second before which there is no permit for any task.
        served_at: the monotonic second at which tasks were last claimed.
    """

    def __init__(
        self, handler: TaskHandler, permits: Permits, runs: LaneRuns, max_rescues: int, is_served: bool = True
    ) -> None:
        """``is_served``: whether the handler's own queue is served here."""
        self.code = handler.biz_code
        self.handler = handler
        self.permits = permits
        self.runs = runs
        self._max_rescues = max_rescues
        self.stock = Stock()
        self.open: dict[Place, None] = {}
        self.freed: dict[Place, None] = {}
        self.resumes_at = self._tokens_at = self.served_at = float("-inf")
        self._levels = {(handler.queue, handler.priority)} if is_served else set()
        self._passed: dict[Claim, float] = {}
        self._timers: dict[Place, float] = {}
        self._is_futile = False
        self._lacks_slots = False

    def show(self, level: Level) -> None:
        """Note a level of the open lane that has due tasks."""
        self.open[Place(level.lane, level.queue, level.priority, watermark(level.earliest))] = None
        self._levels.add((level.queue, level.priority))

    def is_open(self, queue: str, priority: int) -> bool:
        """Return whether tasks of this level are known to be due. Thread-safe."""
        return any((place.queue, place.priority) == (queue, priority) for place in list(self.open))

    def note_found(self, place: Place) -> None:
        """Note a place with blocked tasks that perhaps no executor is about to claim."""
        self._levels.add((place.queue, place.priority))
        if place not in self._timers:
            self.freed[place] = None

    def note_ends(self, is_held: Callable[[Claim], bool]) -> None:
        """Note which of the runs have ended: the tasks that were blocked by them may have a permit now."""
        for key in self.runs.end(is_held):
            self.resumes_at = min(self.resumes_at, self._tokens_at)
            if self.handler.is_keyed:
                self.free(key)

    def free(self, key: str) -> None:
        """Note that the key may have a free permit."""
        lane = self.lane_for(key)
        for level in sorted(self._levels):
            self.freed[Place(lane, *level)] = None

    def wake(self) -> None:
        """Move the places whose time has come among those whose permits may be free."""
        now = clock.monotonic()
        for place in [place for place, moment in self._timers.items() if moment <= now]:
            del self._timers[place]
            self.freed[place] = None

    def to_read(self, room: int, serves: Callable[[Place], bool]) -> dict[Place, int]:
        """Return the places to read, with the number of tasks to read of each; none while there are no permits."""
        if clock.monotonic() < self.resumes_at:
            return {}
        limit = min(room, self.handler.max_concurrent or room)
        freed = list(islice(filter(serves, self.freed), MAX_PARTS))
        now = clock.monotonic()
        self._passed = {claim: until for claim, until in self._passed.items() if until > now}
        many = (PORTION if self._is_futile else min(room, PORTION)) + len(self._passed)
        return dict.fromkeys(freed, limit + len(self._passed)) | dict.fromkeys(filter(serves, self.open), many)

    @property
    def hands_on(self) -> bool:
        """Whether a slot is all that its runs need, and whichever is next may have it, so that a run can hand it on."""
        handler = self.handler
        return handler.max_concurrent is not None and not (handler.rate or handler.pool or handler.is_keyed)

    def to_stock(self, serves: Callable[[Place], bool]) -> dict[Place, int]:
        """Return the places to read for tasks that are to get slots next, as ``to_read``; none if there are enough."""
        if not self._lacks_slots or len(self.stock) >= ENOUGH // 2:
            return {}
        return dict.fromkeys(filter(serves, self.open), ENOUGH + len(self._passed))

    def without_passed(self, found: Found) -> Found:
        """Return the tasks that were found, without those that are left alone or get a slot at this moment."""
        reserved = self.stock.reserved()
        return {
            place: [task for task in tasks if task.claim not in self._passed and task.claim not in reserved]
            for place, tasks in found.items()
        }

    def lane_for(self, key: str) -> str:
        """Return the lane in which tasks of this key wait for a permit."""
        return blocked_lane(self.code, key) if self.handler.is_keyed else open_lane(self.code)

    def _to_move(self, found: Found, permitted: PermitDecision) -> dict[ClaimedTask, str]:
        """Return the lanes of the refused tasks that are not yet there: they would be read again and again.

        They are in the open lane, or in the lane of the key that they had before the handler was changed.
        """
        return {
            task: lane
            for place, tasks in found.items()
            for task in tasks
            if task in permitted.refused and (lane := self.lane_for(permitted.keys[task])) != place.lane
        }

    def plan(self, places: Mapping[Place, int], read: Found, room: int, now: datetime) -> ClaimPlan:
        """Choose up to ``room`` of the tasks that were read, with their permits, and lanes for those without one."""
        found = self.without_passed(read)
        ends, keys = self.examine(found, now)
        permitted = self.permits.choose(keys, room)
        self.stock.reserve(task.claim for task in permitted.tasks)
        tasks, blocked = [*permitted.tasks, *ends], self._to_move(found, permitted)
        choice = ClaimChoice(tasks, permitted.slots, permitted.tokens, self.permits.period, blocked)
        return ClaimPlan(places, read, ends, permitted, choice)

    def examine(self, found: Found, now: datetime) -> tuple[dict[ClaimedTask, Settlement], dict[ClaimedTask, str]]:
        """Examine tasks that were read, before any permit is taken: some end without a run, the others have a key.

        Return both, in the order in which to start them.
        """
        ends: dict[ClaimedTask, Settlement] = {}
        keys: dict[ClaimedTask, str] = {}
        tasks = [task for some in found.values() for task in some]
        for task in sorted(tasks, key=lambda task: (-task.priority, claimable_at(task), task.id)):
            end_or_key = self._examined(task, now)
            if isinstance(end_or_key, Settlement):
                ends[task] = end_or_key
            else:
                keys[task] = end_or_key
        return ends, keys

    def _examined(self, task: ClaimedTask, now: datetime) -> Settlement | str:
        # Whatever a project's code raises, SystemExit too, the executor's thread and the tasks of other codes continue.
        try:
            if late := refusal(task, self.handler, now):
                return late
            try:
                return self.permits.key_of(task)
            except BaseException as error:
                return failed(task, self.handler, raised(error), now, now, self._max_rescues)
        except BaseException as error:  # by an attribute of the handler
            return rescue_settlement(task, raised(error), now, self._max_rescues)

    def begin(self, plan: ClaimPlan, written: ClaimResult) -> None:
        """Note the runs of the tasks that were claimed, with their slots as they were before."""
        keys = {task.claim: plan.permitted.keys[task] for task in written.won if task not in plan.ends}
        self.runs.begin(keys, plan.permitted.slots)
        self.served_at = clock.monotonic()

    def learn(self, plan: ClaimPlan, written: ClaimResult, pause: float) -> None:
        """Note what follows from a claim for the next ones; ``pause``: seconds to wait for permits held elsewhere."""
        won = set(written.won)
        # A caller has locked or changed them: they are left alone for a while.
        self._passed |= dict.fromkeys(written.passed, clock.monotonic() + 1.0)
        self.stock.take_back({task.claim for task in plan.permitted.tasks}.difference(task.claim for task in won))
        self._note_read(plan, won)
        self._note_refused(plan.permitted, won, pause)
        self._look_again({plan.permitted.keys[task] for task in written.blocked if _waits_for_run(plan, task)})

    def _note_read(self, plan: ClaimPlan, won: Collection[ClaimedTask]) -> None:
        permitted = plan.permitted
        is_keyed = self.handler.is_keyed
        for place, tasks in plan.read.items():
            is_left = any(task not in won and not (is_keyed and task in permitted.refused) for task in tasks)
            if not is_left and not self._may_have_more(place, tasks, plan.places[place], permitted):
                self.open.pop(place, None)
                self.freed.pop(place, None)

    def _note_refused(self, permitted: PermitDecision, won: Collection[ClaimedTask], pause: float) -> None:
        is_keyed = self.handler.is_keyed
        waits = {task: seconds for task, seconds in permitted.refused.items() if seconds is not None}
        now = clock.monotonic()
        if is_keyed:
            for task, seconds in waits.items():
                place = Place(self.lane_for(permitted.keys[task]), task.queue, task.priority)
                self._timers[place] = min(now + seconds, self._timers.get(place, float("inf")))
        elif all(task in won for task in permitted.tasks):  # otherwise a permit may still be free
            if waits:
                self.resumes_at = self._tokens_at = now + min(waits.values())
            elif permitted.is_short:
                self.resumes_at = now + pause
        self._lacks_slots = self.hands_on and permitted.is_short
        self._is_futile = is_keyed and not won and bool(permitted.refused)

    def _look_again(self, keys: set[str]) -> None:
        """Check whether the keys of tasks that have just been blocked have a free slot by now.

        The executor whose run ended may have looked for blocked tasks before these were blocked.
        """
        for key in self.permits.with_free_slots(keys):
            self.free(key)

    def _may_have_more(self, place: Place, tasks: list[ClaimedTask], asked: int, permitted: PermitDecision) -> bool:
        """Return whether there may be more tasks than those that were read, and for blocked ones more permits."""
        if len(tasks) < asked or place in self.open:
            return len(tasks) >= asked
        if any(self.lane_for(permitted.keys[task]) != place.lane for task in tasks if task in permitted.keys):
            return True  # they were blocked before the handler was changed
        if any(task in permitted.refused for task in tasks):
            return False
        started = sum(task in permitted.tasks for task in tasks)  # the others were too late to run, for example
        return started < asked or asked < (self.handler.max_concurrent or asked + 1)

    @property
    def priorities(self) -> set[int]:
        """The priorities of the places that may have tasks to claim."""
        return {place.priority for place in (*self.open, *self.freed)}

    def seconds_until_permits(self) -> float:
        """Return the seconds until there may be permits for any task."""
        return max(0.0, self.resumes_at - clock.monotonic())

    def seconds_until_timer(self) -> float:
        """Return the seconds until a key has a rate token again."""
        return max(0.0, min(self._timers.values(), default=float("inf")) - clock.monotonic())

    def note_outpaced(self) -> None:
        """Forget what may be wrong after others were faster: the free slots, the stock, and the claims being made."""
        self.runs.forget()
        self.stock.clear()

    def forget(self) -> None:
        """Forget what may be wrong after an error."""
        self.open = {}
        self.note_outpaced()
        self.resumes_at = float("-inf")


def _waits_for_run(plan: ClaimPlan, task: ClaimedTask) -> bool:
    """Return whether a refused task gets its permit when a run ends, and not at a certain time."""
    return plan.permitted.refused[task] is None
