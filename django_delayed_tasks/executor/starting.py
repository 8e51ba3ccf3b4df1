"""What a run stands for, and whether it may still start: looked at just before the handler is called."""

from datetime import datetime
from typing import Any

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store import ClaimedTask, Settlement, recurrence
from django_delayed_tasks.store.claims import planned, run_extra
from django_delayed_tasks.triggers import Trigger, next_run, next_time, run_to_start


def refuse(task: ClaimedTask, handler: TaskHandler, now: datetime) -> Settlement | None:
    """None when the run may start, ``task.when`` then being the time that it stands for; else how it is settled unrun.

    A recurring task that nobody could run for a while stands for the latest of its times, or whichever its trigger's
    ``misfire`` says. Lateness is looked at before the first attempt: a retry belongs to a run that was in time.
    """
    try:
        trigger = task.trigger
    except InvalidTrigger as error:
        return Settlement(task.claim, RunOutcome.FAILED, Then.FAILED, finished=now, error=str(error))
    if trigger and task.when > now:
        run_extra(task, now)
        return None
    if task.attempts > 1:
        return _expired(task, trigger, now, _AT.format(task.expires_at)) if _has_expired(task, now) else None
    when = run_to_start(trigger, task.when, now) if trigger else task.when
    if when is None:
        return _expired(task, trigger, now, f"{now - task.when} late, which the trigger's grace does not allow")
    task.when = when
    if _has_expired(task, now):
        return _expired(task, trigger, now, _AT.format(task.expires_at))
    lateness = handler.longest_lateness
    if lateness is not None and now - when > lateness:
        return _expired(task, trigger, now, f"{now - when} late, {lateness} at most")
    return None


_AT = "it expired at {0:%Y-%m-%d %H:%M:%S} UTC"


def _has_expired(task: ClaimedTask, now: datetime) -> bool:
    return task.expires_at is not None and now > task.expires_at


def _expired(task: ClaimedTask, trigger: Trigger | None, now: datetime, why: str) -> Settlement:
    settlement = Settlement(task.claim, RunOutcome.EXPIRED, Then.GONE, finished=now, error=f"not started: {why}")
    return settlement._replace(**recurrence(trigger, next_time(trigger, task.when, now))) if trigger else settlement


def following(task: ClaimedTask, started: datetime, finished: datetime) -> dict[str, Any]:
    """What a settlement says of the time after this run; empty when there is none."""
    trigger = task.trigger
    if trigger is None:
        return {}
    return recurrence(trigger, planned(task) or next_run(trigger, task.when, started, finished))
