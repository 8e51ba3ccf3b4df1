"""The values that pass between a caller, a handler and the machinery."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django_delayed_tasks.states import AddAction


class Unchanged:
    """The type of :data:`UNCHANGED`."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED = Unchanged()
"""Stands for "leave it as it is" where None is a value of its own."""


class AddResult(NamedTuple):
    """What :func:`~django_delayed_tasks.api.add_task` did, and the primary key of the row it did it to.

    ``task_id`` is None when the task was FILTERED.
    """

    task_id: Any
    action: AddAction


@dataclass(frozen=True, slots=True)
class Done:
    """The task is done. ``result`` (any JSON value) is kept in the history.

    ``biz_ext`` is handed to the next run of a recurring task; left out, it keeps what it has.
    """

    result: Any = None
    biz_ext: Any = UNCHANGED


@dataclass(frozen=True, slots=True)
class Reschedule:
    """Run again at ``when`` (an aware datetime, or a timedelta from now), attempts counted anew.

    ``biz_ext`` is handed to the next run; left out, the task keeps what it has.
    """

    when: datetime | timedelta
    biz_ext: Any = UNCHANGED


@dataclass(frozen=True, slots=True)
class Retry:
    """This attempt did not succeed: run again ``after`` (None: the handler's back-off), until attempts are used up."""

    after: timedelta | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """No further attempt makes sense: the task becomes FAILED and waits for a person."""

    reason: str = ""


Outcome = Done | Reschedule | Retry | Fail
