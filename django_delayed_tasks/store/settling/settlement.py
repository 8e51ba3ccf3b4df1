"""Settlements: values that say how a claim ends."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django_delayed_tasks.outcomes import UNCHANGED
from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.sql.fences import Claim


class Settlement(NamedTuple):
    """How one claim ends: what the history says, and what becomes of the task.

    Attributes:
        then: what becomes of the task.
        started: when the run started, by the database's clock; likewise ``finished``.
        when: the new time for Then.AGAIN and RECUR; a timedelta counts from the settlement.
        after: the delay for RETRY, RESCUED and RELEASED; for RECUR, the jitter after ``when``.
        biz_ext: the data for the next run as JSON text, or None, or UNCHANGED.
        result: JSON text for the history.
        keep: whether the history gets a row.
        once: whether the identity is remembered as one that has been done.
        stood_for: the time that the run of a recurring task was for, if it is not the row's.
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
    """Return the settlement of a claim that was not started: no attempt is counted, no history is kept."""
    return Settlement(task.claim, RunOutcome.LOST, Then.RELEASED, after=after, keep=False)


def is_final_failure(outcome: RunOutcome, became: Then | None) -> bool:
    """Return whether the attempts are used up: the task is FAILED, or a recurring task waits for its next time."""
    return became is Then.FAILED or (outcome is RunOutcome.FAILED and became is Then.RECUR)
