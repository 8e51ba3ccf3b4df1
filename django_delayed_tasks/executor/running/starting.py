"""Checks just before the handler is called: whether the run may still start, and which scheduled time it stands for."""

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
    """Return None if the run may start, else the settlement of the task, which is not run.

    If the run may start, ``task.when`` is set to the time that the run stands for. For a recurring task that no
    executor could run for a while, the trigger's ``misfire`` chooses that time, by default the latest. Lateness is
    checked before the first attempt only: a retry belongs to a run that was on time.
    """
    try:
        trigger = task.trigger
    except InvalidTrigger as error:
        return Settlement(task.claim, RunOutcome.FAILED, Then.FAILED, finished=now, error=str(error))
    if trigger and is_early(task):
        run_extra(task, now)
        return None
    now = max(now, task.when)  # it was claimed, so it is due: the estimate of the database's clock may be a bit behind
    why = _too_late(task, handler, trigger, now)
    if trigger:
        task.when = time_of(trigger, task.when, now)
    return _expired(task, trigger, now, why) if why else None


def is_over(task: ClaimedTask, handler: TaskHandler, now: datetime) -> bool:
    """Return whether :func:`refuse` would refuse the task now; change nothing."""
    try:
        trigger = task.trigger
    except InvalidTrigger:
        return True
    return not (trigger and is_early(task)) and bool(_too_late(task, handler, trigger, max(now, task.when)))


def _too_late(task: ClaimedTask, handler: TaskHandler, trigger: Trigger | None, now: datetime) -> str:
    """Return why it is too late to start the run; an empty string if it is not."""
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
    """Return the fields of a settlement that schedule the next run; empty if the task does not recur."""
    trigger = task.trigger
    if trigger is None:
        return {}
    return recurrence(trigger, planned(task) or next_run(trigger, task.when, started, max(finished, task.when)))
