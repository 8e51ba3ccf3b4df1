"""Tasks that were written while the database's clock was ahead: they wait for longer than they should.

``update_time`` of such a row lies in the future. That tells it from one that a caller has given a later time.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from django_delayed_tasks.clock import SKEW
from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.models import Recurrence, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.schedules import verbs
from django_delayed_tasks.store.schedules.declare import NUM
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.store.sql.portions import PORTION
from django_delayed_tasks.triggers import parse_stored


class Times(NamedTuple):
    """The time of a task, when it can be claimed, when that was written, and its trigger."""

    when: datetime
    claim_at: datetime
    update_time: datetime
    trigger_text: str | None


def times_of(task: Any) -> Times:
    """Return the times of a pending task, read as a row of the table or of an index."""
    return Times(task.when, task.claim_at, task.update_time, task.trigger_text)


def mended(found: Times, now: datetime) -> Times | None:
    """Return the times that a pending task would have if the clock had been right; None if it has them.

    A recurring task waits for the next time of its trigger. What was due when it was written is due now. A retry waits
    as long as it was to, counted from now. Any other time is the caller's.
    """
    if found.update_time <= now + SKEW:
        return None
    when = _next_of(found, now) if found.trigger_text else found.when
    if found.when <= found.update_time:
        when = min(when, now)
    wait = found.claim_at - max(found.when, found.update_time)
    right = found._replace(when=when, claim_at=max(when, now) + max(wait, timedelta()))
    return right if (right.when, right.claim_at) < (found.when, found.claim_at) else None


def _next_of(found: Times, now: datetime) -> datetime:
    try:
        following = parse_stored(found.trigger_text or "").next_after(now)
    except InvalidTrigger:
        return found.when
    return min(found.when, following or found.when)


def declared_ahead(alias: str, now: datetime) -> "QuerySet[Task]":
    """Return the tasks that handlers declared which were written while the clock was ahead: looked up by their keys."""
    codes = Recurrence.objects.using(alias).values("biz_code")
    return _ahead(alias, now).filter(biz_code__in=codes, biz_num=NUM)


def _ahead(alias: str, now: datetime) -> "QuerySet[Task]":
    return Task.objects.using(alias).filter(Q(status=TaskStatus.PENDING, update_time__gt=now + SKEW))


def find(alias: str) -> Iterator[tuple[Task, Times]]:
    """Yield the tasks that wait for longer than they should, with their right times; reads the whole table."""
    now, last = read_now(alias), 0
    while some := list(_ahead(alias, now).filter(pk__gt=last).order_by("pk")[:PORTION]):
        yield from ((task, right) for task in some if (right := mended(times_of(task), now)))
        last = some[-1].pk


def retime(alias: str) -> int:
    """Give the tasks that :func:`find` finds their right times; return how many these were."""
    return sum(_write(alias, task, right) for task, right in find(alias))


def _write(alias: str, task: Task, right: Times) -> int:
    moments = {"when_time": right.when, "claim_at": right.claim_at}
    return len(verbs.retiming(moments).to_seen(alias, [(task.pk, task.version)]))
