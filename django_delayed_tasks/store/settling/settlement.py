"""Settlements: values that say how a claim ends, and the form in which a database can hold them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django_delayed_tasks.exceptions import CutOff
from django_delayed_tasks.outcomes import UNCHANGED
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.records.history import KeepsData
from django_delayed_tasks.store.sql.charsets import in_ascii, json_with_escapes
from django_delayed_tasks.store.sql.dialects import Dialect
from django_delayed_tasks.store.sql.fences import Claim

WENT_WELL: Final = (RunOutcome.DONE, RunOutcome.RESCHEDULED)
RESULT_CHANGED = "the database cannot store all characters of the result: they were replaced by escapes in its texts"


class Settlement(NamedTuple):
    """The end of one claim: the outcome for the history, and the next state of the task.

    Attributes:
        then: what becomes of the task.
        started: when the run started, by the database's clock; likewise ``finished``.
        when: the new time for NextState.AGAIN and RECUR; a timedelta counts from the settlement.
        after: the delay for RETRY, RESCUED and RELEASED; for RECUR and AGAIN, the pause after ``when``.
        biz_ext: the data for the next run as JSON text, or None, or UNCHANGED.
        result: JSON text for the history.
        keep: whether the history gets a row.
        lane: the lane in which a released task waits, if it was not the one of its code.
        once: whether the identity is remembered as one that has been done.
        stood_for: the time that the run of a recurring task was for, if it is not the row's.
        exception: what ended the run, for the log and for hooks; of it, only the path of its class is written.
        keep_data: whether the history keeps the task's data if the task is gone; None: if the run failed and it is
            small. So do those of a failed run with True whose task remains.
    """

    claim: Claim
    outcome: RunOutcome
    then: NextState
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
    exception: BaseException | None = None
    keep_data: bool | None = False
    lane: str | None = None

    def __repr__(self) -> str:
        return object.__repr__(self)  # without the data, which may hold secrets


_AFTER_FINISHED = Settlement(Claim(0, 0, 0), RunOutcome.DONE, NextState.GONE)[5:]
_TO_KEEP, _TO_DATA = _AFTER_FINISHED[:5], _AFTER_FINISHED[6:9]

LOOK_AGAIN = 60.0
"""Seconds for which tasks without a handler are postponed, and not claimed: a deploy takes about as long."""


def done(claim: Claim, started: datetime, finished: datetime, keep: bool, keep_data: bool | None) -> Settlement:
    """Return the settlement of a run that returned None, whose task is gone after it."""
    # What Settlement(...) does; its own __new__ is Python code, and takes twice as long.
    values = claim, RunOutcome.DONE, NextState.GONE, started, finished, *_TO_KEEP, keep, *_TO_DATA, keep_data, None
    return tuple.__new__(Settlement, values)


def released(task: ClaimedTask, after: timedelta = timedelta(), lane: str | None = None) -> Settlement:
    """Return the settlement of a claim that was not started: no attempt is counted, no history is kept."""
    return Settlement(task.claim, RunOutcome.LOST, NextState.RELEASED, after=after, keep=False, lane=lane)


def cut_off(claim: Claim, why: str) -> Settlement:
    """Return the settlement of a run that was cut off: its task is given back, and no attempt or rescue is counted."""
    error = f"cut off: {why}"
    return Settlement(claim, RunOutcome.LOST, NextState.RELEASED, error=error, exception=CutOff(error))


def stopped(executor: str) -> str:
    """Return why a run was cut off whose executor, of this name, was stopped."""
    return f"its executor was stopped ({executor})"


def keeps_data(one: Settlement) -> KeepsData:
    """Return which data of the task the history keeps for this run."""
    if one.keep_data and one.then is NextState.GONE:
        return KeepsData.ALL
    return KeepsData.NONE if one.keep_data is False or one.outcome in WENT_WELL else KeepsData.SMALL


def is_final_failure(outcome: RunOutcome, became: NextState | None) -> bool:
    """Return whether attempts or rescues are used up: the task is FAILED, or a recurring one waits for its next time.

    A run that is LOST is only followed by the next time of a recurring task if there are no rescues left.
    """
    return became is NextState.FAILED or (outcome in (RunOutcome.FAILED, RunOutcome.LOST) and became is NextState.RECUR)


def as_stored(dialect: Dialect, settlements: Sequence[Settlement]) -> Sequence[Settlement]:
    """Return the settlements with their errors and results in ASCII, if the database does not hold all texts.

    The data of the next run is left alone: it would have another value. If a result has another one, ``error`` says so.
    """
    return settlements if dialect.holds_all_texts else [_in_ascii(one) for one in settlements]


def _in_ascii(one: Settlement) -> Settlement:
    error, result = in_ascii(one.error), one.result
    if result and not result.isascii():
        result, error = json_with_escapes(result), f"{error}\n{RESULT_CHANGED}".lstrip()
    return one._replace(error=error, result=result)
