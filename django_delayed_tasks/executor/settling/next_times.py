"""The next time of a recurring task, as fields of a settlement; asked for when the end of a run is decided."""

from datetime import datetime
from typing import Any

from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, planned
from django_delayed_tasks.store.schedules.recurrence import recurrence
from django_delayed_tasks.triggers import next_run


def next_time_of(task: ClaimedTask, started: datetime, finished: datetime) -> dict[str, Any]:
    """Return the fields of a settlement that schedule the next run; empty if the task does not recur.

    Raises:
        InvalidTrigger: the text in the row is not a valid trigger.
        OverflowError: the next time is beyond the range of dates.
    """
    trigger = task.trigger
    if trigger is None:
        return {}
    return recurrence(trigger, planned(task) or next_run(trigger, task.when, started, max(finished, task.when)))
