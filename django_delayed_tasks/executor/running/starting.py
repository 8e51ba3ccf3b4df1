"""What a run stands for, and whether it may still start: looked at just before the handler is called."""

from datetime import datetime, timedelta
from typing import Any

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, is_early, planned, run_extra
from django_delayed_tasks.store.schedules.recurrence import recurrence
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.triggers import Trigger, next_run, next_time, run_to_start, time_of


def refuse(task: ClaimedTask, handler: TaskHandler, now: datetime) -> Settlement | None:
    """None when the run may start, ``task.when`` then being the time that it stands for; else how it is settled unrun.

    A recurring task that nobody could run for a while stands for the latest of its times, or whichever its trigger's
    ``misfire`` says. Lateness is looked at before the first attempt: a retry belongs to a run that was in time.
    """
    try:
        trigger = task.trigger
    except InvalidTrigger as error:
        return Settlement(task.claim, RunOutcome.FAILED, Then.FAILED, finished=now, error=str(error))
    if trigger and is_early(task):
        run_extra(task, now)
        return None
    now = max(now, task.when)  # that it has come is known: the database's clock, as told here, may be a little behind
    why = _too_late(task, handler, trigger, now)
    if trigger:
        task.when = time_of(trigger, task.when, now)
    return _expired(task, trigger, now, why) if why else None


def is_over(task: ClaimedTask, handler: TaskHandler, now: datetime) -> bool:
    """Whether :func:`refuse` would refuse it now; changes nothing."""
    try:
        trigger = task.trigger
    except InvalidTrigger:
        return True
    return not (trigger and is_early(task)) and bool(_too_late(task, handler, trigger, max(now, task.when)))


def _too_late(task: ClaimedTask, handler: TaskHandler, trigger: Trigger | None, now: datetime) -> str:
    """Why the run is not to start any more; nothing if it is."""
    if task.expires_at is not None and now > task.expires_at:
        return f"it expired at {task.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    if task.attempts > 1:
        return ""
    when = run_to_start(trigger, task.when, now) if trigger else task.when
    if when is None:
        return f"{now - task.when} late, which the trigger's grace does not allow"
    lateness, jitter = handler.longest_lateness, trigger.longest_jitter if trigger else timedelta()
    if lateness is not None and now - when > lateness + jitter:
        return f"{now - when} late, {lateness} at most"
    return ""


def _expired(task: ClaimedTask, trigger: Trigger | None, now: datetime, why: str) -> Settlement:
    settlement = Settlement(task.claim, RunOutcome.EXPIRED, Then.GONE, finished=now, error=f"not started: {why}")
    settlement = settlement._replace(stood_for=task.when)
    return settlement._replace(**recurrence(trigger, next_time(trigger, task.when, now))) if trigger else settlement


def following(task: ClaimedTask, started: datetime, finished: datetime) -> dict[str, Any]:
    """What a settlement says of the time after this run; empty when there is none."""
    trigger = task.trigger
    if trigger is None:
        return {}
    return recurrence(trigger, planned(task) or next_run(trigger, task.when, started, max(finished, task.when)))
