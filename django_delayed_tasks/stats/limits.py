"""Due tasks that wait for a limit of their handler: they are not late, and more executors would not run them sooner.

Nor are those late that are held back while others run.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from django.utils.translation import gettext as _

from django_delayed_tasks import clock
from django_delayed_tasks.handlers import TaskHandler, find
from django_delayed_tasks.stats.figures import Figures
from django_delayed_tasks.stats.reasons import closed
from django_delayed_tasks.stats.snapshot import LATE, Snapshot
from django_delayed_tasks.stats.suspects import Apart, held_back
from django_delayed_tasks.store.claiming import waiting
from django_delayed_tasks.store.claiming.agenda import Level
from django_delayed_tasks.store.resources.rate_tokens import tokens_of
from django_delayed_tasks.store.resources.usage import SlotUse, first_free, slot_use
from django_delayed_tasks.store.sql.lanes import code_of, is_blocked, is_limited

UNUSED: Final = SlotUse(0, 0)

Place = tuple[str, str]
"""A queue, and a code that has tasks in it."""


@dataclass(frozen=True, slots=True)
class Limited(Figures):
    """The due tasks of one code in one queue that wait for a limit.

    Attributes:
        tasks: how many; ``COUNTED + 1`` stands for "more than ``COUNTED``".
        is_exact: False if there may be more than these.
        since: when the first of them became due.
        limit: what they wait for, in words.
    """

    queue: str
    code: str
    tasks: int
    is_exact: bool
    since: datetime
    limit: str


class Waits(NamedTuple):
    """The tasks that wait for limits, the first to have become due first, and the levels in which all due tasks do.

    ``apart``: the tasks that are held back while others run.
    """

    limited: list[Limited]
    levels: frozenset[Level]
    apart: Apart

    def first(self, level: Level) -> datetime | None:
        """Return when the first task of the level that may run became claimable, or will be; None if there is none."""
        return None if level in self.levels else self.apart.first.get(level, level.earliest)


def waits_of(seen: Snapshot) -> Waits:
    """Return which due tasks wait for limits; tasks in paused queues or without an executor wait for something else."""
    served = [level for level in seen.agenda.levels if is_limited(level.lane) and not closed(seen, level.queue)]
    limits = used_up(seen, {_place(level) for level in served if not is_blocked(level.lane) and _is_late(seen, level)})
    held = [level for level in served if is_blocked(level.lane) or (_is_late(seen, level) and _place(level) in limits)]
    limited = sorted([*_opened(seen, held, limits), *_blocked(seen)], key=lambda one: one.since)
    return Waits(limited, frozenset(held), held_back(seen))


def _place(level: Level) -> Place:
    return level.queue, code_of(level.lane)


def _is_late(seen: Snapshot, level: Level) -> bool:
    return level.earliest <= seen.now - LATE


def _opened(seen: Snapshot, held: Iterable[Level], limits: Mapping[Place, str]) -> Iterable[Limited]:
    found: dict[Place, Limited] = {}
    for level in held:
        if not is_blocked(level.lane):
            place = _place(level)
            one = found.get(place, Limited(*place, 0, True, level.earliest, limits[place]))
            tasks, since = one.tasks + seen.due_levels.get(level, 1), min(one.since, level.earliest)
            found[place] = Limited(*place, tasks, one.is_exact and level in seen.due_levels, since, one.limit)
    return found.values()


def _blocked(seen: Snapshot) -> Iterable[Limited]:
    since: dict[Place, datetime] = {}
    keys: dict[Place, int] = {}
    for level in seen.agenda.blocked:
        if not closed(seen, level.queue):
            place = _place(level)
            since[place] = min(level.earliest, since.get(place, level.earliest))
            keys[place] = keys.get(place, 0) + 1
    counts = waiting.count_blocked(seen.alias) if since else {}
    is_exact = sum(counts.values()) <= waiting.COUNTED
    for place, first in since.items():
        yield Limited(*place, max(counts.get(place, 0), keys[place]), is_exact, first, _of_keys(find(place[1])))


def _of_keys(handler: TaskHandler | None) -> str:
    if handler is None:
        return _("a limit of their keys")
    limits = {"max_concurrent": handler.max_concurrent, "rate": handler.rate}
    named = _(" and ").join(f"{name} = {value}" for name, value in limits.items() if value)
    return _("%(limits)s of their keys") % {"limits": named}


def used_up(seen: Snapshot, places: Collection[Place]) -> dict[Place, str]:
    """Return the limits, in words, that allow no further run now, of those places of which one is used up.

    Limits of keys are left out: the tasks that wait for these are blocked.
    """
    handlers = {code: handler for _queue, code in places if (handler := find(code))}
    unkeyed = {code for code, handler in handlers.items() if not handler.is_keyed}
    slots = slot_use(seen.alias, [code for code in unkeyed if handlers[code].max_concurrent], seen.now - LATE)
    pools = {handler.pool for handler in handlers.values() if handler.pool}
    free = first_free(seen.alias, pools | {tokens_of(code) for code in unkeyed if handlers[code].rate})
    found = {}
    for place in places:
        if handler := handlers.get(place[1]):
            # Where runs are short, permits are free now and then. If threads are, too, then it is still what tasks
            # wait for, as long as each permit is taken all the time.
            is_idle = bool(seen.idle_threads(place[0]))
            since = seen.now - LATE if is_idle else seen.now
            if limit := _slots_of(handler, slots, is_idle) or _leases_of(handler, free, since):
                found[place] = limit
    return found


def _slots_of(handler: TaskHandler, slots: Mapping[str, SlotUse], is_idle: bool) -> str:
    use = slots.get(handler.biz_code, UNUSED)
    used = use.held + (use.recent if is_idle else 0)
    if not handler.max_concurrent or used < handler.max_concurrent:
        return ""
    most = handler.max_concurrent
    return _("max_concurrent = %(most)d (%(used)d of %(most)d in use)") % {"most": most, "used": min(used, most)}


def _leases_of(handler: TaskHandler, free: Mapping[str, datetime], since: datetime) -> str:
    if handler.rate and free.get(tokens_of(handler.biz_code), clock.EPOCH) > since:
        return _("rate = %(rate)s (all starts that it allows have been used)") % {"rate": handler.rate}
    if handler.pool and free.get(handler.pool, clock.EPOCH) > since:
        return _("a resource of the pool “%(pool)s” (none is free)") % {"pool": handler.pool}
    return ""
