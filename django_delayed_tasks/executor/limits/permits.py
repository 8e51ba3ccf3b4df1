"""The permits that a run needs before it may start: a slot (``max_concurrent``), a resource (``pool``), a rate token.

They are taken in this order, since a rate token cannot be given back.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import ResourceUnavailable, UnknownPool, shortened
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.threads.contexts import in_clean_context
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.handlers.rates import Rate, parse_rate
from django_delayed_tasks.leases.pool import LeasedResource, Pool
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, lend
from django_delayed_tasks.store.resources.rate_tokens import Taken, provide_tokens, take_growing, take_tokens, tokens_of
from django_delayed_tasks.store.resources.slots import Slot, drop_slots, take_slots
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

MOST_SLOTS: Final = 1000
"""Slots that one statement looks at, approximately."""
COMPLAIN_EVERY: Final = 60.0
SHAPE_EVERY: Final = 30.0
"""Seconds between two checks that a rate has as many tokens as the handler says."""


class Granted(NamedTuple):
    """The tasks that may run now, and for each key whose rate is exhausted the seconds until it allows another."""

    tasks: list[ClaimedTask]
    next_in: Mapping[str, float] = MappingProxyType({})


class Permits:
    """Takes permits for the tasks of one handler."""

    def __init__(self, alias: str, handler: TaskHandler, held: Held, ttl: timedelta) -> None:
        """``ttl`` is how long after the death of this process a resource is free again."""
        self._alias = alias
        self._held = held
        self._handler = handler
        self._code = handler.get_biz_code()
        self._rate = parse_rate(handler.rate) if handler.rate else None
        self._pool = Pool(handler.pool, using=alias) if handler.pool else None
        self._ttl = ttl
        self._complained = float("-inf")
        self._shaped: dict[str, float] = {}

    @property
    def rate_speed(self) -> float:
        """How many runs per second, of each key, the rate allows in the long run; 0 without a rate."""
        return self._rate.starts / self._rate.period.total_seconds() if self._rate else 0.0

    @property
    def is_keyed(self) -> bool:
        """Whether the handler has concurrency keys: some of its tasks may run while others have to wait."""
        return self._handler.is_keyed

    def key_of(self, task: ClaimedTask) -> str:
        """Return the key by which runs of this task are counted; "" if they are counted by the code.

        Raises:
            TypeError: ``concurrency_key()`` returned neither a string nor None.
            Exception: whatever ``concurrency_key()`` raises.
        """
        key = in_clean_context(self._handler.concurrency_key, task)
        if key is not None and not isinstance(key, str):
            raise TypeError(f"concurrency_key() gave {shortened(key)}: expected a string or None")
        return key or ""

    def take(self, tasks: dict[ClaimedTask, str], most: int) -> Granted:
        """Take permits for up to ``most`` of these tasks, given with their keys, as far as permits are free."""
        limit = self._handler.max_concurrent
        if limit is None:
            return self._take_rest(dict(islice(tasks.items(), most)))
        slots = self._take_slots(tasks, limit, most)
        granted = Granted([])
        try:
            granted = self._take_rest({task: key for task, key in tasks.items() if task.claim in slots})
        finally:
            held = {task.claim for task in granted.tasks}
            if left := [slot for claim, slot in slots.items() if claim not in held]:
                drop_slots(self._alias, left)
        return granted

    def _take_slots(self, tasks: dict[ClaimedTask, str], limit: int, most: int) -> dict[Claim, Slot]:
        wanted: defaultdict[str, list[Claim]] = defaultdict(list)
        for task, key in tasks.items():
            if key in wanted or len(wanted) * limit < MOST_SLOTS:
                wanted[key].append(task.claim)
        return take_slots(self._alias, self._code, limit, wanted, most)

    def _take_rest(self, chosen: dict[ClaimedTask, str]) -> Granted:
        if self._pool:
            chosen = {task: chosen[task] for task in self._take_resources(self._pool, list(chosen))}
        if self._rate is None or not chosen:
            return Granted(list(chosen))
        granted = Granted([])
        try:
            granted = self._take_tokens(self._rate, chosen)
        finally:
            for task in chosen.keys() - set(granted.tasks):
                self._held.free_resource(task)
        return granted

    def _take_tokens(self, rate: Rate, chosen: dict[ClaimedTask, str]) -> Granted:
        by_key: defaultdict[str, list[ClaimedTask]] = defaultdict(list)
        for task, key in chosen.items():
            by_key[key].append(task)
        granted: list[ClaimedTask] = []
        next_in: dict[str, float] = {}
        for key, tasks in by_key.items():
            taken = self._take_of_key(rate, key, len(tasks))
            granted += tasks[: taken.starts]
            if taken.next_in is not None:
                next_in[key] = taken.next_in
        return Granted(granted, next_in)

    def _take_of_key(self, rate: Rate, key: str, count: int) -> Taken:
        pool, now = tokens_of(self._code, key), clock.monotonic()
        self._shaped = {one: at for one, at in self._shaped.items() if now - at < SHAPE_EVERY}
        is_shaped = pool in self._shaped
        if self.is_keyed:
            taken = take_growing(self._alias, pool, rate.starts, rate.period, count, is_shaped)
        else:
            if not is_shaped:
                provide_tokens(self._alias, pool, rate.starts, rate.period)
            taken = take_tokens(self._alias, pool, rate.period, count)
        self._shaped.setdefault(pool, now)
        return taken

    def _take_resources(self, pool: Pool, tasks: list[ClaimedTask]) -> list[ClaimedTask]:
        lent: list[ClaimedTask] = []
        try:
            for task in tasks:
                resource = LeasedResource(pool, self._ttl, 0.0)
                resource.acquire()
                lend(task, resource)
                lent.append(task)
        except ResourceUnavailable:
            pass
        except UnknownPool as error:
            self._complain(error)
        except BaseException:
            for task in lent:
                self._held.free_resource(task)
            raise
        return lent

    def _complain(self, error: Exception) -> None:
        if clock.monotonic() - self._complained >= COMPLAIN_EVERY:
            logger.error("tasks of %r wait: %s", self._code, error)
            self._complained = clock.monotonic()
