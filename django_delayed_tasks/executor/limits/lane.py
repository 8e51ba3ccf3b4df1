"""One limited code: where its tasks wait, which of its runs are here, and when to look for the next ones."""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice

from django_delayed_tasks import clock
from django_delayed_tasks.executor.limits.permits import PermitDecision, Permits
from django_delayed_tasks.executor.limits.runs import LaneRuns
from django_delayed_tasks.executor.limits.stock import ENOUGH, Stock
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.store.claiming.agenda import Level
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import watermark
from django_delayed_tasks.store.limits.claiming import Found, Place
from django_delayed_tasks.store.resources.slots import Slot
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.store.sql.lanes import blocked_lane, open_lane
from django_delayed_tasks.store.sql.portions import MAX_PARTS, PORTION


class Lane:
    """The tasks of one limited code, as far as this executor knows of them.

    Attributes:
        open: the levels of the open lane that have due tasks.
        freed: the places whose blocked tasks may have a permit now.
        resumes_at: the monotonic second before which there is no permit for any task.
        served_at: the monotonic second at which tasks were last claimed.
    """

    def __init__(self, handler: TaskHandler, permits: Permits, runs: LaneRuns, is_served: bool = True) -> None:
        """``is_served``: whether the handler's own queue is served here."""
        self.code = handler.biz_code
        self.handler = handler
        self.permits = permits
        self.runs = runs
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

    def note_start(self, tasks: Mapping[ClaimedTask, str], slots: Mapping[Claim, Slot]) -> None:
        """Note tasks that were claimed, with their keys, and their slots as they were before the claim."""
        self.runs.begin({task.claim: key for task, key in tasks.items()}, slots)
        self.served_at = clock.monotonic()

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

    def skip(self, claims: Iterable[Claim]) -> None:
        """Leave tasks alone for a while that could not be claimed: a caller has locked or changed them."""
        self._passed |= dict.fromkeys(claims, clock.monotonic() + 1.0)

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

    def to_move(self, found: Found, permitted: PermitDecision) -> dict[ClaimedTask, str]:
        """Return the lanes of the refused tasks that are not yet there: they would be read again and again.

        They are in the open lane, or in the lane of the key that they had before the handler was changed.
        """
        return {
            task: lane
            for place, tasks in found.items()
            for task in tasks
            if task in permitted.refused and (lane := self.lane_for(permitted.keys[task])) != place.lane
        }

    def note_claimed(
        self,
        asked: Mapping[Place, int],
        read: Found,
        won: Collection[ClaimedTask],
        permitted: PermitDecision,
        pause: float,
    ) -> None:
        """Note what was read, claimed and refused; ``pause`` is in seconds, for permits that are held elsewhere."""
        is_keyed = self.handler.is_keyed
        for place, tasks in read.items():
            is_left = any(task not in won and not (is_keyed and task in permitted.refused) for task in tasks)
            if not is_left and not self._may_have_more(place, tasks, asked[place], permitted):
                self.open.pop(place, None)
                self.freed.pop(place, None)
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
    def places(self) -> list[Place]:
        """The places that may have tasks to claim."""
        return [*self.open, *self.freed]

    @property
    def priority(self) -> int:
        """The highest priority of these places."""
        return max(place.priority for place in self.places)

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
