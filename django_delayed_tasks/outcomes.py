"""Values that callers and handlers exchange with this library: the result of an add, the outcomes of a run."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django_delayed_tasks.states import AddAction


class Unchanged:
    """The type of :data:`UNCHANGED`."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED = Unchanged()
"""Stands for "leave it as it is" where None is a valid value."""


class AddResult(NamedTuple):
    """The result of :func:`~django_delayed_tasks.api.add_task`: its action, and the primary key of the task's row.

    ``task_id`` is None when the task was FILTERED.
    """

    task_id: Any
    action: AddAction


@dataclass(frozen=True, slots=True)
class Done:
    """The task is done. ``result`` (any JSON value) is kept in the history.

    ``biz_ext`` is the data for the next run of a recurring task; if it is left out, the task keeps its data.
    """

    result: Any = field(default=None, repr=False)  # may hold secrets, as data may
    biz_ext: Any = field(default=UNCHANGED, repr=False)


@dataclass(frozen=True, slots=True)
class Reschedule:
    """Run again at ``when`` (an aware datetime, or a timedelta from now) and reset the attempt counter.

    ``biz_ext`` is the data for the next run; if it is left out, the task keeps its data.
    """

    when: datetime | timedelta
    biz_ext: Any = field(default=UNCHANGED, repr=False)


@dataclass(frozen=True, slots=True)
class Retry:
    """This attempt failed: run again ``after`` this time (None: the handler's back-off), until attempts are used up."""

    after: timedelta | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """No further attempt makes sense: the task becomes FAILED and waits for a person."""

    reason: str = ""


Outcome = Done | Reschedule | Retry | Fail
