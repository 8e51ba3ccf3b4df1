"""Chooses the permits of a run before its task is claimed: a slot, a rate token, a resource of a pool.

Slots and rate tokens are written with the claim, by ``store/limits/claiming.py``. A resource is leased before: its
lease has a clock of its own.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from datetime import timedelta
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import InvalidOutcome, ResourceUnavailable, TaskException, UnknownPool, shortened
from django_delayed_tasks.executor import project
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.limits.runs import LaneRuns
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.handlers.attributes import Rate, parse_rate
from django_delayed_tasks.leases.pool import LeasedResource, Pool
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, lend
from django_delayed_tasks.store.resources.rate_tokens import (
    FreeTokens,
    Token,
    free_growing,
    free_tokens,
    provide_tokens,
    tokens_of,
)
from django_delayed_tasks.store.resources.slots import Slot, free_slots
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.support.logs import Log
from django_delayed_tasks.support.redaction import shown

logger = Log(__name__)

MAX_SLOTS: Final = 1000
"""Slots that one statement looks at, approximately."""
SHAPE_EVERY: Final = 30.0
"""Seconds between two checks that a rate has as many tokens as the handler says. An executor with older code may have
disabled some."""

Keyed = Mapping[ClaimedTask, str]
"""Tasks with their keys."""


class PermitDecision(NamedTuple):
    """The tasks that may run, with their permits, and the tasks that were refused because no permit is free.

    ``refused`` has the seconds until there may be a permit for a task; None if it must wait for a run to end.
    ``is_short``: whether there were too few slots or resources; it matters for tasks without keys. ``keys`` has the
    keys of all tasks.
    """

    keys: Keyed
    tasks: list[ClaimedTask]
    slots: dict[Claim, Slot]
    tokens: dict[Claim, Token]
    refused: dict[ClaimedTask, float | None]
    is_short: bool = False


class Permits:
    """Chooses permits for the tasks of one handler."""

    def __init__(self, alias: str, handler: TaskHandler, held: Held, runs: LaneRuns, ttl: timedelta) -> None:
        """``ttl`` is how long after the death of this process a resource is free again."""
        self._alias = alias
        self._held = held
        self._handler = handler
        self._code = handler.biz_code
        self._rate = parse_rate(handler.rate) if handler.rate else None
        self._pool = Pool(handler.pool, using=alias) if handler.pool else None
        self._ttl = ttl
        self._has_complained = False
        self._shaped: dict[str, float] = {}
        self._runs = runs

    @property
    def period(self) -> timedelta:
        """The period of the rate."""
        return self._rate.period if self._rate else timedelta()

    def key_of(self, task: ClaimedTask) -> str:
        """Return the key by which runs of this task are counted; "" if they are counted by the code.

        Raises:
            InvalidOutcome: ``concurrency_key()`` returned a value that is no key; it would do so again.
            TaskException: ``concurrency_key()`` raised an error.
        """
        try:
            key = project.call(f"concurrency_key of {self._code}", self._handler.concurrency_key, task)
        except Exception as error:
            raise TaskException(
                f"concurrency_key() of the code {self._code!r} raised {shortened(error)}: it gets the task before its "
                "run, and needs all of the key in the task's number or data"
            ) from error
        if key is None or isinstance(key, str):
            return key or ""
        if isinstance(key, int | UUID) and not isinstance(key, bool):
            return str(int(key) if isinstance(key, int) else key)
        raise InvalidOutcome(
            f"{type(self._handler).__qualname__} ({self._code}): concurrency_key() gave {shown(key)}: expected a str,"
            " an int or a UUID, or None"
        )

    def choose(self, tasks: Keyed, most: int) -> PermitDecision:
        """Choose permits for up to ``most`` of these tasks, in their order, as far as permits are free.

        A task that is neither permitted nor refused is left for later.
        """
        permitted = self._with_slots(tasks, most)
        if self._rate:
            permitted = self._with_tokens(self._rate, permitted, tasks)
        if self._pool:
            lent = self._take_resources(self._pool, permitted.tasks)
            is_short = permitted.is_short or len(lent) < len(permitted.tasks)
            permitted = permitted._replace(tasks=lent, is_short=is_short)
        return permitted

    def with_free_slots(self, keys: Collection[str]) -> set[str]:
        """Return which of these keys have a free slot now, according to the database.

        One whose slots are all held by runs of this process is not asked for.
        """
        limit, here = self._handler.max_concurrent, self._runs.here()
        if limit is None or not (elsewhere := [key for key in keys if here[key] < limit]):
            return set()
        free = free_slots(self._alias, self._code, limit, dict.fromkeys(elsewhere, 1))
        return {key for key, slots in free.items() if slots}

    def _with_slots(self, tasks: Keyed, most: int) -> PermitDecision:
        limit = self._handler.max_concurrent
        permitted = PermitDecision(tasks, [], {}, {}, {})
        if limit is None:
            permitted.tasks.extend(islice(tasks, most))
            return permitted
        remembered = {key for key in set(tasks.values()) if self._runs.has_free(key)}
        free = self._free_slots(tasks, limit)
        for task, key in tasks.items():
            if len(permitted.tasks) == most:
                break
            if key not in free:
                continue
            if free[key]:
                permitted.slots[task.claim] = free[key].pop(0)
                permitted.tasks.append(task)
            else:
                permitted.refused[task] = None
        self._runs.put_back({key: free[key] for key in free.keys() & remembered})
        return permitted._replace(is_short=bool(permitted.refused))

    def _free_slots(self, tasks: Keyed, limit: int) -> dict[str, list[Slot]]:
        """Return the free slots of the tasks' keys; of some keys only, if there are many."""
        wanted = Counter(islice(tasks.values(), MAX_SLOTS))
        here = self._runs.here()
        free: dict[str, list[Slot]] = {}
        unknown: dict[str, int] = {}
        for key, count in wanted.items():
            remembered = self._runs.take_free(key)
            if len(remembered) >= min(count, limit - here[key]):
                free[key] = remembered
            elif (len(unknown) + 1) * limit <= max(MAX_SLOTS, limit):
                unknown[key] = min(count, limit)
        if unknown:
            found = free_slots(self._alias, self._code, limit, unknown)
            for slots in found.values():
                random.shuffle(slots)  # so that executors seldom want the same, and none insists on a locked one
            free |= found
        return free

    def _with_tokens(self, rate: Rate, permitted: PermitDecision, keys: Keyed) -> PermitDecision:
        by_key: defaultdict[str, list[ClaimedTask]] = defaultdict(list)
        for task in permitted.tasks:
            by_key[keys[task]].append(task)
        tokens: dict[Claim, Token] = {}
        # No token is held for longer than the period, unless the database's clock was set back.
        longest = rate.period.total_seconds()
        if not self._handler.is_keyed:
            longest = min(longest, SHAPE_EVERY)
        for key, some in by_key.items():
            looked = self._read_free_tokens(rate, key, len(some))
            tokens |= zip((task.claim for task in some), looked.free, strict=False)
            wait = min(looked.next_in or 0.05, longest)  # another look soon, if it is not known when
            permitted.refused.update(dict.fromkeys(some[len(looked.free) :], wait))
        chosen = [task for task in permitted.tasks if task.claim in tokens]
        return permitted._replace(tasks=chosen, tokens=tokens)

    def _read_free_tokens(self, rate: Rate, key: str, count: int) -> FreeTokens:
        pool, now = tokens_of(self._code, key), clock.monotonic()
        self._shaped = {one: at for one, at in self._shaped.items() if now - at < SHAPE_EVERY}
        is_shaped = pool in self._shaped
        if self._handler.is_keyed:
            looked = free_growing(self._alias, pool, rate.starts, rate.period, count, is_shaped)
        else:
            if not is_shaped:
                provide_tokens(self._alias, pool, rate.starts, rate.period)
            looked = free_tokens(self._alias, pool, rate.period, count)
        self._shaped.setdefault(pool, now)
        return looked

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
            if not self._has_complained:
                logger.error("tasks of %r wait: %s", self._code, error)
            self._has_complained = True
        except BaseException:
            for task in lent:
                self._held.free_resource(task)
            raise
        return lent
