"""How one claim ends, as a value."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django_delayed_tasks.outcomes import UNCHANGED
from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.sql.fences import Claim


class Settlement(NamedTuple):
    """How one claim ends: what the history says, and what becomes of the task.

    ``when`` is the new time of Then.AGAIN (a timedelta counts from the settlement), ``after`` the delay of RETRY,
    RESCUED and RELEASED, ``biz_ext`` JSON text, None or UNCHANGED, ``result`` JSON text; ``started`` and ``finished``
    are by the database's clock. ``keep`` tells whether the history gets a row, ``once`` whether
    the identity is remembered as one that has been done, ``stood_for`` the time that the run of a recurring task was
    for, which need not be the row's.
    """

    claim: Claim
    outcome: RunOutcome
    then: Then
    started: datetime | None = None
    finished: datetime | None = None
    when: datetime | timedelta | None = None
    after: timedelta = timedelta()
    biz_ext: Any = UNCHANGED
    result: str | None = None
    error: str = ""
    keep: bool = True
    once: bool = False
    stood_for: datetime | None = None


def released(task: ClaimedTask, after: timedelta = timedelta()) -> Settlement:
    """The settlement of a claim that was not started: no attempt, no history."""
    return Settlement(task.claim, RunOutcome.LOST, Then.RELEASED, after=after, keep=False)


def is_final_failure(outcome: RunOutcome, became: Then | None) -> bool:
    """Whether a schedule has used up its attempts: the task is FAILED, or waits for its next time."""
    return became is Then.FAILED or (outcome is RunOutcome.FAILED and became is Then.RECUR)
