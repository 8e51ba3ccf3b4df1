"""Recurring tasks: one row each, whose next time is written by whatever ends a run."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connections
from django.db.backends.utils import CursorWrapper

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.states import Then
from django_delayed_tasks.store.dialects import dialect_of
from django_delayed_tasks.store.transactions import in_one_statement
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
    return schedule._replace(when=first_time(schedule.trigger_text, now))


def first_time(text: str, now: datetime) -> datetime:
    """The first time after ``now`` of the trigger with this text: none of before it existed.

    Raises:
        InvalidTrigger: there is none, or the text is that of no trigger.
    """
    first = parse(text).next_after(now)
    if first is None:
        raise InvalidTrigger("trigger", text, "has no time after now")
    return first


def recurrence(trigger: Trigger, when: datetime | None) -> dict[str, Any]:
    """The fields of a settlement after which the task waits for ``when``; empty for None."""
    if when is None:
        return {}
    jitter = trigger.longest_jitter
    return {"then": Then.RECUR, "when": when, "after": random.random() * jitter if jitter else timedelta()}


def read_now(alias: str) -> datetime:
    """The present moment by the database's clock."""
    dialect = dialect_of(connections[alias])

    def read(cursor: CursorWrapper) -> datetime:
        cursor.execute(f"SELECT {dialect.now}")
        return dialect.to_datetime(cursor.fetchone()[0])

    return in_one_statement(alias, read)
