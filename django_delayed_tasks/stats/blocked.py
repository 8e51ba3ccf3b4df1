"""Why a due task does not run, and how often its runs were cut off, as texts for people."""

from contextlib import suppress
from datetime import datetime

from django.db.models import Count, Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks.conf import settings
from django_delayed_tasks.handlers import find
from django_delayed_tasks.handlers.functions import is_function
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.stats.findings import lacks_handler, threads_clause, was_refused
from django_delayed_tasks.stats.limits import used_up
from django_delayed_tasks.stats.snapshot import LATE, Snapshot, take_snapshot
from django_delayed_tasks.stats.suspects import behind, bound_of, running_text
from django_delayed_tasks.store.schedules.find import count_cut_offs
from django_delayed_tasks.store.sql.lanes import is_blocked, is_limited


def reason(task: Task, now: datetime) -> str:
    """Return why a task that is due has not started, as far as rows tell; "" if it is not due.

    One without a handler is due from ``when`` on: executors put it off for a minute each time that they look at it.
    """
    if task.status != TaskStatus.PENDING or min(task.claim_at, task.when) > now:
        return ""
    seen = take_snapshot(task._state.db)
    if _lacks_handler(task, seen):
        return _("no executor of its queue has a handler for its code")
    if task.claim_at > now:
        return ""
    if task.queue in seen.paused:
        return _("its queue is paused")
    if not seen.alive:
        return _("no executor is alive")
    if not seen.serving(task.queue):
        return _("no executor serves its queue")
    return _limit(task, seen) or _held_back(task, seen) or _threads(task, seen)


def _lacks_handler(task: Task, seen: Snapshot) -> bool:
    # Executors import the module of a function when they claim the first task of it.
    return lacks_handler(seen, task) and (not is_function(task.biz_ext) or was_refused(seen, task))


def _limit(task: Task, seen: Snapshot) -> str:
    """Return the limit that the task waits for, "" if there is none."""
    if waits := blocked_text(task) or pool_text(task, seen.now):
        return waits
    place = task.queue, task.biz_code
    limit = used_up(seen, [place]).get(place, "") if is_limited(task.lane) and seen.serving(task.queue) else ""
    return limit and _("it waits for %s; more executors will not help") % limit


def _held_back(task: Task, seen: Snapshot) -> str:
    """Return that a rescued task is kept apart from others that run; "" if it may run with them."""
    bound = bound_of(seen, task.queue)
    if bound is None or task.rescues < bound:
        return ""
    why = _("it is held back while other tasks run that were taken from dead executors: one of them may be the cause")
    return f"{why} ({running_text(behind(seen, task.queue))})"


def _threads(task: Task, seen: Snapshot) -> str:
    if not seen.idle_threads(task.queue):
        return _("it waits for an executor. %s") % threads_clause(seen, task.queue)
    if is_limited(task.lane) and find(task.biz_code) is None:
        return _("it waits for an executor, or for a limit of its code")
    return _("it waits for an executor")


def reasons(task: Task, now: datetime) -> list[str]:
    """Return the limit that a due task waits for, and why it is late if it is, or has no handler."""
    if task.status != TaskStatus.PENDING or min(task.claim_at, task.when) > now:
        return []
    seen = take_snapshot(task._state.db)
    is_told = task.claim_at <= now - LATE or _lacks_handler(task, seen)
    why = [_limit(task, seen) if task.claim_at <= now else "", reason(task, now) if is_told else ""]
    return list(dict.fromkeys(filter(None, why)))


def cut_offs_text(task: Task) -> str:
    """Return how often a stop of its executor has cut off a run of this task since it got its time, "" if never."""
    count = count_cut_offs(task._state.db or settings.DATABASE, task)
    return ngettext("cut off %d time", "cut off %d times", count) % count if count else ""


def blocked_text(task: Task) -> str:
    """Return a text about the key that the task waits for, "" if it is not blocked."""
    if task.status != TaskStatus.PENDING or not is_blocked(task.lane):
        return ""
    text = _("blocked: a task of its key %(key)s is running, or the key's rate allows no start yet")
    return text % {"key": _key_of(task)}


def _key_of(task: Task) -> str:
    """Return the concurrency key of a task, "" if it cannot be told here."""
    handler = find(task.biz_code)
    with suppress(Exception):
        return repr(handler.concurrency_key(task)) if handler else ""
    return ""


def pool_text(task: Task, now: datetime) -> str:
    """Return that a due task waits for a resource of its handler's pool, "" if one is free or it needs none."""
    handler = find(task.biz_code)
    if task.status != TaskStatus.PENDING or task.claim_at > now or not handler or not handler.pool:
        return ""
    is_free, is_leased = Q(enabled=True, busy_before__lte=now), Q(enabled=True, busy_before__gt=now)
    counts = Resource.objects.using(task._state.db).filter(pool=handler.pool).aggregate(
        free=Count("pk", filter=is_free), leased=Count("pk", filter=is_leased), all=Count("pk"),
    )  # fmt: skip
    disabled = counts["all"] - counts["free"] - counts["leased"]
    text = _("waits for a resource of the pool %(pool)r: %(free)d free, %(leased)d leased, %(disabled)d disabled")
    return "" if counts["free"] else text % {**counts, "pool": handler.pool, "disabled": disabled}
