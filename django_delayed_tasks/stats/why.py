"""Why a due task does not run, and how often its runs were cut off, as texts for people."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

from django.db.models import Count, Q
from django.utils.translation import ngettext

from django_delayed_tasks.conf import settings
from django_delayed_tasks.handlers import find
from django_delayed_tasks.handlers.functions import is_function
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats.findings import threads_clause
from django_delayed_tasks.stats.limits import used_up
from django_delayed_tasks.stats.reasons import Reason, Why, closed, lacks_handler, was_refused
from django_delayed_tasks.stats.snapshot import LATE, Snapshot, take_snapshot
from django_delayed_tasks.stats.suspects import behind, bound_of, running_text
from django_delayed_tasks.store.schedules.find import count_cut_offs
from django_delayed_tasks.store.sql.lanes import is_blocked, is_limited

TOLD_AT_ONCE = {Reason.CODE_WITHOUT_HANDLER, Reason.KEY, Reason.POOL, Reason.LIMITED}
"""The reasons that are worth a word before the task is late."""


def why(task: Task, now: datetime) -> Why | None:
    """Return why a task that is due has not started, as far as rows tell; None if it is not due.

    One without a handler is due from ``when`` on: executors put it off for a minute each time that they look at it.
    """
    return next(_reasons(task, now), None)


def told(task: Task, now: datetime) -> str:
    """Return the texts to tell of a due task: its reason, if it is late, and a limit that it waits for, in any case."""
    found = list(_reasons(task, now))
    is_late = task.claim_at <= now - LATE
    return "; ".join(one.text for one in found if one.reason in TOLD_AT_ONCE or (is_late and one is found[0]))


def _reasons(task: Task, now: datetime) -> Iterator[Why]:
    """Yield the reasons of a due task: first what keeps its whole queue waiting, then what it waits for itself."""
    if task.status != TaskStatus.PENDING or min(task.claim_at, task.when) > now:
        return
    seen = take_snapshot(task._state.db)
    if _lacks_handler(task, seen):
        yield _plain(Reason.CODE_WITHOUT_HANDLER)
    if task.claim_at > now:
        return
    if reason := closed(seen, task.queue):
        yield _plain(reason)
    if limit := _limit(task, seen):
        yield limit
    elif not reason:
        yield _held_back(task, seen) or _threads(task, seen)


def _plain(reason: Reason) -> Why:
    return Why(reason, str(reason.label))


def _lacks_handler(task: Task, seen: Snapshot) -> bool:
    # Executors import the module of a function when they claim the first task of it.
    return lacks_handler(seen, task) and (not is_function(task.biz_ext) or was_refused(seen, task))


def _limit(task: Task, seen: Snapshot) -> Why | None:
    """Return the limit that the task waits for, None if there is none."""
    if text := blocked_text(task):
        return Why(Reason.KEY, text)
    if text := _pool_text(task, seen.now):
        return Why(Reason.POOL, text)
    place = task.queue, task.biz_code
    is_open = is_limited(task.lane) and seen.serving(task.queue)
    limit = used_up(seen, [place]).get(place) if is_open else None
    return Why(Reason.LIMITED, Reason.LIMITED.label % limit) if limit else None


def _held_back(task: Task, seen: Snapshot) -> Why | None:
    """Return that a rescued task is kept apart from others that run; None if it may run with them."""
    bound = bound_of(seen, task.queue)
    if bound is None or task.rescues < bound:
        return None
    return Why(Reason.HELD_BACK, f"{Reason.HELD_BACK.label} ({running_text(behind(seen, task.queue))})")


def _threads(task: Task, seen: Snapshot) -> Why:
    if not seen.idle_threads(task.queue):
        return Why(Reason.BUSY, Reason.BUSY.label % threads_clause(seen, task.queue))
    return _plain(Reason.LIMITED_OR_BUSY if is_limited(task.lane) and not find(task.biz_code) else Reason.UNCLAIMED)


def cut_offs_text(task: Task) -> str:
    """Return how often a stop of its executor has cut off a run of this task since it got its time, "" if never."""
    count = count_cut_offs(task._state.db or settings.DATABASE, task)
    return ngettext("cut off %d time", "cut off %d times", count) % count if count else ""


def blocked_text(task: Task) -> str:
    """Return a text about the key that the task waits for, "" if it is not blocked."""
    if task.status != TaskStatus.PENDING or not is_blocked(task.lane):
        return ""
    return Reason.KEY.label % {"key": _key_of(task)}


def _key_of(task: Task) -> str:
    """Return the concurrency key of a task, "" if it cannot be told here."""
    handler = find(task.biz_code)
    with suppress(Exception):
        return repr(handler.concurrency_key(task)) if handler else ""
    return ""


def _pool_text(task: Task, now: datetime) -> str:
    """Return that a due task waits for a resource of its handler's pool, "" if one is free or it needs none."""
    handler = find(task.biz_code)
    if not handler or not handler.pool:
        return ""
    is_free, is_leased = Q(enabled=True, busy_before__lte=now), Q(enabled=True, busy_before__gt=now)
    counts = Resource.objects.using(task._state.db).filter(pool=handler.pool).aggregate(
        free=Count("pk", filter=is_free), leased=Count("pk", filter=is_leased), all=Count("pk"),
    )  # fmt: skip
    disabled = counts["all"] - counts["free"] - counts["leased"]
    return "" if counts["free"] else Reason.POOL.label % {**counts, "pool": handler.pool, "disabled": disabled}
