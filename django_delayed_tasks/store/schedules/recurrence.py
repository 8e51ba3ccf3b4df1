"""Recurring tasks: one row each; the transaction that ends a run also writes the next time."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connections

from django_delayed_tasks.exceptions import InvalidTask, InvalidTrigger
from django_delayed_tasks.states import NextState
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.transactions import in_one_statement
from django_delayed_tasks.store.validation import Schedule
from django_delayed_tasks.triggers import Trigger, parse
from django_delayed_tasks.triggers.values import LAST


def with_first_times(alias: str, schedules: Sequence[Schedule]) -> list[Schedule]:
    """Return the schedules; one with a trigger but no time of its own gets the trigger's first time after now.

    Raises:
        InvalidTrigger: a trigger has no time after now.
        InvalidTask: a task expires before its first time.
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
    if isinstance(schedule.expires_at, datetime) and schedule.expires_at < when:
        raise InvalidTask("expires_at", schedule.expires_at, f"is before the first time of {trigger}, {when}")
    return schedule._replace(when=when, claim_at=jittered(trigger, when))


def first_time(trigger: Trigger, now: datetime) -> datetime:
    """Return the trigger's first time after ``now``; earlier times are before the task existed.

    Raises:
        InvalidTrigger: the trigger has no time after ``now``.
    """
    first = trigger.next_after(now)
    if first is None:
        raise InvalidTrigger("trigger", str(trigger), "has no time after now")
    return first


def jittered(trigger: Trigger, when: datetime) -> datetime:
    """Return the moment from which the run for ``when`` may start: later by a random part of the trigger's jitter."""
    return when + min(random.random() * trigger.longest_jitter, max(LAST - when, timedelta()))


def recurrence(trigger: Trigger, when: datetime | None) -> dict[str, Any]:
    """Return the fields of a settlement after which the task waits for ``when``; none if ``when`` is None."""
    if when is None:
        return {}
    return {"then": NextState.RECUR, "when": when, "after": jittered(trigger, when) - when}


def read_now(alias: str) -> datetime:
    """Return the current time by the database's clock."""
    return in_one_statement(alias, dialect_of(connections[alias]).read_now)
