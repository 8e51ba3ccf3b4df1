"""The project's ``TIME_ZONE`` as executors saw it last, and the times of recurring tasks that follow a new one.

A row has the time that its trigger gave, and not the zone in which that was: one record has it (decision 8).
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import QuerySet

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.models import Overview, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.schedules import verbs
from django_delayed_tasks.store.schedules.recurrence import read_now
from django_delayed_tasks.store.sql.portions import PORTION
from django_delayed_tasks.store.sql.transactions import in_one_write
from django_delayed_tasks.triggers import parse_stored
from django_delayed_tasks.triggers.zones import rezoned

NAME: Final = "time_zone"
"""The name of the record."""
FOLLOWED_FOR: Final = timedelta(minutes=10)
"""The time for which rows of the former zone are looked for: executors with older settings may be ending their runs."""


def follow(alias: str, zone: str, codes: Collection[str], *, is_start: bool) -> int:
    """Give the recurring tasks of these codes their times in this zone, if it is new; return how many these were.

    An executor that starts decides which zone it is; others follow it if it is theirs.
    """
    now = read_now(alias)
    known = _known(alias, zone, now)
    before, since = known.data.get("before"), known.taken_at
    if known.data["zone"] != zone:
        if not is_start:
            return 0
        before, since = known.data["zone"], now
        _write(alias, {"zone": zone, "before": before}, now)
    return _rezone(alias, before, codes, now) if before and now - since <= FOLLOWED_FOR else 0


def _known(alias: str, zone: str, now: datetime) -> Overview:
    """Return the record, which the first executor makes."""
    rows: Any = Overview.objects.using(alias).filter(name=NAME)
    found: Overview | None = rows.first()
    if found is None:
        found = Overview(name=NAME, taken_at=now, data={"zone": zone})
        in_one_write(alias, lambda _: Overview.objects.using(alias).bulk_create([found], ignore_conflicts=True))
    return found


def _write(alias: str, data: dict[str, Any], now: datetime) -> None:
    rows: Any = Overview.objects.using(alias).filter(name=NAME)
    in_one_write(alias, lambda _: rows.update(data=data, taken_at=now))


def _rezone(alias: str, before: str, codes: Collection[str], now: datetime) -> int:
    changed, last = 0, 0
    while some := list(_recurring(alias, now).filter(pk__gt=last).order_by("pk")[:PORTION]):
        changed += sum(_move(alias, task, before, now) for task in some if task.biz_code in codes)
        last = some[-1].pk
    return changed


def _recurring(alias: str, now: datetime) -> "QuerySet[Task]":
    """Return the tasks that wait for a later time of their trigger; a retry has the time that has passed."""
    waiting = (TaskStatus.PENDING, TaskStatus.PAUSED)
    rows = Task.objects.using(alias).filter(trigger__isnull=False, status__in=waiting, when__gt=now)
    return rows.only("biz_code", "version", "when", "claim_at", "trigger")


def _move(alias: str, task: Task, before: str, now: datetime) -> int:
    try:
        when = rezoned(parse_stored(task.trigger_text or ""), task.when, before, now)
    except InvalidTrigger:
        return 0
    if when == task.when:
        return 0
    moments = {"when_time": when, "claim_at": max(when, now) + max(task.claim_at - task.when, timedelta())}
    return len(verbs.retiming(moments).to_seen(alias, [(task.pk, task.version)]))
