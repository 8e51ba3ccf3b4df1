"""Recurring tasks: one row each, whose next time is written by whatever ends a run."""

import random
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.states import Then
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.transactions import in_one_statement
from django_delayed_tasks.store.validation import Schedule
from django_delayed_tasks.triggers import Trigger, parse


def with_first_times(alias: str, schedules: Sequence[Schedule]) -> list[Schedule]:
    """The schedules; one with a trigger and no time of its own gets the trigger's first after now.

    Raises:
        InvalidTrigger: there is none.
    """
    if not any(schedule.trigger_text and schedule.when is None for schedule in schedules):
        return list(schedules)
    now = read_now(alias)
    return [_with_first_time(schedule, now) for schedule in schedules]


def _with_first_time(schedule: Schedule, now: datetime) -> Schedule:
    if schedule.trigger_text is None or schedule.when is not None:
        return schedule
    trigger = parse(schedule.trigger_text)
    when = first_time(trigger, now)
    return schedule._replace(when=when, claim_at=by_chance(trigger, when))


def first_time(trigger: Trigger, now: datetime) -> datetime:
    """The trigger's first time after ``now``: none of before it existed.

    Raises:
        InvalidTrigger: there is none.
    """
    first = trigger.next_after(now)
    if first is None:
        raise InvalidTrigger("trigger", str(trigger), "has no time after now")
    return first


def by_chance(trigger: Trigger, when: datetime) -> datetime:
    """When a run for ``when`` may begin: the trigger's jitter beyond it."""
    return when + random.random() * trigger.longest_jitter


def recurrence(trigger: Trigger, when: datetime | None) -> dict[str, Any]:
    """The fields of a settlement after which the task waits for ``when``; empty for None."""
    if when is None:
        return {}
    return {"then": Then.RECUR, "when": when, "after": by_chance(trigger, when) - when}


def read_now(alias: str) -> datetime:
    """The present moment by the database's clock."""
    dialect = dialect_of(connections[alias])

    def read(cursor: CursorWrapper) -> datetime:
        cursor.execute(f"SELECT {dialect.now}")
        return dialect.to_datetime(cursor.fetchone()[0])

    return in_one_statement(alias, read)
