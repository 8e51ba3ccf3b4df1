"""When the runs of a recurring task are planned, as far as its trigger tells."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import Any, Final

from django.utils.translation import gettext_lazy

from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.triggers import Trigger, next_time, parse_stored


@dataclass(frozen=True, slots=True)
class Plan:
    """A trigger's text, the present moment, and the time that is already planned; None if no run is planned."""

    text: str
    now: datetime
    first: datetime | None = None
    note: str = ""

    @property
    def trigger(self) -> Trigger:
        """The parsed trigger; raises InvalidTrigger if the text is not that of a trigger."""
        return parse_stored(self.text)

    def times(self, count: int = 10) -> list[datetime]:
        """Return the next times, at most ``count``; the first may be due already."""
        trigger = self.trigger
        if self.first is None:
            return trigger.preview(count, self.now)
        return list(islice(chain([self.first], _after(trigger, self.first, self.now)), count))


def _after(trigger: Trigger, first: datetime, now: datetime) -> Iterator[datetime]:
    second = trigger.next_after(first) if first > now else next_time(trigger, first, now)
    if second is not None:
        yield second
        yield from trigger.times(second)


NOTES: Final[dict[int, Any]] = {
    TaskStatus.FAILED: gettext_lazy("The task has failed: it will not run at these times until it is retried."),
    TaskStatus.PAUSED: gettext_lazy("The task is paused: it will not run at these times until it is resumed."),
}


def plan_of(task: Task, now: datetime) -> Plan | None:
    """Return the plan of this task; None if it does not recur."""
    text = task.trigger_text
    if text is None:
        return None
    if task.status == TaskStatus.PENDING:
        return Plan(text, now, task.when)
    first = None if task.status == TaskStatus.FAILED else _planned(task, text, now)
    return Plan(text, now, first, str(NOTES.get(task.status, "")))


def _planned(task: Task, text: str, now: datetime) -> datetime | None:
    """Return the next time to wait for; a time in the past belongs to a run in progress, or was missed."""
    if task.when > now:
        return task.when
    try:
        return next_time(parse_stored(text), task.when, now)
    except InvalidTrigger:
        return None
