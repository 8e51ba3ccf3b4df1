"""Decides how a run ends: from what the handler returned or raised to a :class:`Settlement`, a value.

Tasks that do not come to their handler get their settlements elsewhere: too late (``run.py``), dead executors
(``reap.py``), released (``held.py``).
"""

import traceback
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import ClaimLost, InvalidOutcome, InvalidTask, InvalidTrigger
from django_delayed_tasks.executor import project
from django_delayed_tasks.executor.settling.settler import next_time_of
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.outcomes import UNCHANGED, Done, Fail, Reschedule, Retry
from django_delayed_tasks.states import KeepHistory, NextState, RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import (
    ClaimedTask,
    is_early,
    is_lost,
    planned,
    recurs,
    run_extra,
)
from django_delayed_tasks.store.settling.settlement import Settlement, cut_off, done
from django_delayed_tasks.store.validation import MAX_MESSAGE, storable, valid_json, valid_when
from django_delayed_tasks.support.logs import Log
from django_delayed_tasks.support.redaction import shown

logger = Log(__name__)


_KEPT: dict[str, frozenset[RunOutcome]] = {
    KeepHistory.ALL: frozenset(RunOutcome),
    KeepHistory.FAILURES: frozenset({RunOutcome.RETRIED, RunOutcome.FAILED, RunOutcome.EXPIRED}),
    KeepHistory.NONE: frozenset(),
}


class GivenBack(BaseException):
    """The end of a run that this process cancelled when it stopped, and why: its task is given back."""


@dataclass(frozen=True, slots=True)
class RaisedError:
    """An error that a handler raised; ``text`` is the traceback."""

    error: BaseException
    text: str


def raised(error: BaseException) -> RaisedError:
    """Wrap an error that ended a run."""
    if isinstance(error, GivenBack):  # thousands may be given back at once, and no traceback is kept
        return RaisedError(error, "")
    if isinstance(error, InvalidOutcome):  # it was returned, not raised; the frames hold the value as it is
        return RaisedError(InvalidOutcome(str(error)), str(error))
    return RaisedError(error, "".join(traceback.format_exception(error)))


def decide(
    task: ClaimedTask,
    handler: TaskHandler,
    result: Any,
    started: datetime,
    finished: datetime,
    max_rescues: int | None = None,
) -> Settlement:
    """Return the settlement of a run.

    ``result`` is what the handler returned, or a :class:`RaisedError` around what it raised. ``max_rescues``
    is the option of the executor; None for the setting.
    """
    try:
        return _settlement(task, handler, result, started, finished, max_rescues)
    except InvalidOutcome as error:
        return _settlement(task, handler, raised(error), started, finished)


def decide_within(
    task: ClaimedTask,
    handler: TaskHandler,
    result: Any,
    started: datetime,
    finished: datetime,
    max_rescues: int | None = None,
) -> Settlement:
    """Decide like :func:`decide`, but inside the transaction of the run: raise what must roll it back.

    Raises:
        InvalidOutcome: ``result`` is not a valid outcome.
        BaseException: the error of ``result``, if that is a :class:`RaisedError`.
    """
    if isinstance(result, RaisedError):
        raise result.error
    return _settlement(task, handler, result, started, finished, max_rescues)


def rescue_settlement(task: ClaimedTask, error: RaisedError, now: datetime, max_rescues: int) -> Settlement:
    """Return the settlement of a run that ended with an error for which neither the handler nor the task is to blame.

    That is a rescue, as if the process had died: the number of rescues is limited. After the last of them a recurring
    task continues with its next time.
    """
    ending = _lost(task, error.text, max_rescues)
    if ending["then"] is NextState.FAILED:
        if is_early(task) and not planned(task):  # the error came before the run
            run_extra(task, now)
        with suppress(InvalidTrigger, OverflowError):  # there is no next time
            ending |= next_time_of(task, now, now)
    return Settlement(task.claim, exception=error.error, **ending)


def _settlement(
    task: ClaimedTask,
    handler: TaskHandler,
    result: Any,
    started: datetime,
    finished: datetime,
    max_rescues: int | None = None,
) -> Settlement:
    finished = max(started, finished)  # the clock may have been set back between the two
    if result is None and not recurs(task) and not task.once:
        return done(task.claim, started, finished, keeps(handler, RunOutcome.DONE), handler.keep_data)
    if (cut := _cut_off(task, result)) is not None:
        keep, stood_for = keeps(handler, RunOutcome.LOST), task.when if recurs(task) else None
        return cut._replace(started=started, finished=finished, keep=keep, stood_for=stood_for)
    if isinstance(result, RaisedError) and isinstance(result.error, ClaimLost):
        ending = _lost(task, result.text, max_rescues)
    else:
        ending = _accepted(task, handler, result)
    if ending["then"] is NextState.AGAIN:
        ending["after"] = _pause_before(task, ending["when"], finished)
    if ending["then"] in (NextState.GONE, NextState.FAILED):
        ending |= next_time_of(task, started, finished)
    if isinstance(result, RaisedError):
        ending["exception"] = result.error
    if recurs(task):
        ending["stood_for"] = task.when
    ending["once"] = task.once and ending["outcome"] is RunOutcome.DONE
    keep = keeps(handler, ending["outcome"])
    ending["keep_data"] = handler.keep_data
    return Settlement(task.claim, started=started, finished=finished, keep=keep, **ending)


def _cut_off(task: ClaimedTask, result: Any) -> Settlement | None:
    """Return the settlement of a run that was cut off; None if it ended by itself."""
    match result:
        case RaisedError(error=GivenBack() as error):
            return cut_off(task.claim, str(error))
        case RaisedError(error=ClaimLost()) if is_lost(task):  # if the claim is gone, the fence refuses this
            pause = TaskHandler().backoff(1)
            return cut_off(task.claim, "its executor could not renew its lease")._replace(after=pause)
    return None


def _accepted(task: ClaimedTask, handler: TaskHandler, result: Any) -> dict[str, Any]:
    try:
        return _ending(task, handler, result)
    except Exception as error:  # what a handler returns may misbehave in any way
        problem = error.problem if isinstance(error, InvalidTask) and error.value is result else error
        text = f"{type(handler).__qualname__} ({task.biz_code}) returned {shown(result)}: {problem}"
        raise InvalidOutcome(text + _meant_instead(result)) from error


def _ending(task: ClaimedTask, handler: TaskHandler, result: Any) -> dict[str, Any]:
    match result:
        case RaisedError(error=InvalidOutcome()):
            return _failed(result.text)  # the next attempt would return the same, after having its effects again
        case RaisedError():
            return _attempt_raised(task, handler, result)
        case None:
            return {"outcome": RunOutcome.DONE, "then": NextState.GONE}
        case Done():
            text = valid_json(result.result, settings.MAX_BIZ_EXT_BYTES, "result")
            return {
                "outcome": RunOutcome.DONE,
                "then": NextState.GONE,
                "result": text,
                "biz_ext": _carried(result.biz_ext),
            }
        case datetime() | timedelta():
            return _again(Reschedule(result))
        case Reschedule():
            return _again(result)
        case Retry():
            return _attempt_failed(task, handler, _reason(result.reason), _valid_after(result.after))
        case Fail():
            return _failed(_reason(result.reason))
    raise InvalidOutcome("expected None, a datetime, a timedelta, Done, Reschedule, Retry or Fail")


def _reason(reason: Any) -> str:
    return str(reason) if isinstance(reason, str | BaseException) else shown(reason, MAX_MESSAGE)


def _again(result: Reschedule) -> dict[str, Any]:
    if result.when is None:
        raise InvalidOutcome("Reschedule needs a time")
    if isinstance(result.when, timedelta) and result.when < timedelta():
        raise InvalidOutcome("a timedelta from now must not be negative")
    biz_ext = _carried(result.biz_ext)
    return {
        "outcome": RunOutcome.RESCHEDULED, "then": NextState.AGAIN, "when": valid_when(result.when), "biz_ext": biz_ext,
    }  # fmt: skip


def _pause_before(task: ClaimedTask, when: datetime | timedelta, finished: datetime) -> timedelta:
    """Return how long after ``when`` a task runs again: zero, unless it would run for a time that it has just run for.

    It runs for that time again and again, so it waits for as long as it is late by then: the pause doubles each time,
    up to an hour.
    """
    if not isinstance(when, datetime) or when > min(task.when, finished):
        return timedelta()
    late = finished - when
    pause = min(late, timedelta(hours=1))
    text = "%s is to run again for %s, which has passed and is not after the time that it ran for; it waits for %.1f s"
    logger.warning(text, task, when, pause.total_seconds())
    return late + pause


def _carried(biz_ext: Any) -> Any:
    """Return the data that the next run gets, as JSON text, or UNCHANGED."""
    return biz_ext if biz_ext is UNCHANGED else valid_json(biz_ext, settings.MAX_BIZ_EXT_BYTES)


def _valid_after(after: Any) -> timedelta | None:
    if after is not None and not isinstance(after, timedelta):
        raise InvalidOutcome(f"Retry(after={shown(after)}): must be a timedelta or None")
    valid_when(after, "after")
    return after


def _attempt_raised(task: ClaimedTask, handler: TaskHandler, raised: RaisedError) -> dict[str, Any]:
    if task.attempts >= handler.max_attempts:
        return _failed(raised.text)
    delay = _delay_after(handler, task, raised.error)
    return _failed(raised.text) if delay is None else _retried(raised.text, delay)


def _attempt_failed(
    task: ClaimedTask, handler: TaskHandler, error: str, after: timedelta | None = None
) -> dict[str, Any]:
    if task.attempts >= handler.max_attempts:
        return _failed(error)
    return _retried(error, _backoff(handler, task.attempts) if after is None else after)


def _retried(error: str, delay: timedelta) -> dict[str, Any]:
    return {"outcome": RunOutcome.RETRIED, "then": NextState.RETRY, "after": delay, "error": storable(error)}


def _lost(task: ClaimedTask, error: str, max_rescues: int | None) -> dict[str, Any]:
    """End a run that raised ClaimLost: the fence refuses this if the claim is gone; else the run is not to blame."""
    if task.rescues >= (settings.MAX_RESCUES if max_rescues is None else max_rescues):
        return _failed(error)
    pause = TaskHandler().backoff(task.rescues + 1)
    return {"outcome": RunOutcome.LOST, "then": NextState.RESCUED, "after": pause, "error": storable(error)}


def _backoff(handler: TaskHandler, attempt: int) -> timedelta:
    try:
        return _valid_delay(project.ask(f"backoff of {handler.biz_code}", handler.backoff, attempt))
    except BaseException as error:  # a failing backoff(), by SystemExit too, must not cost the task its retry
        return _default_delay(handler, attempt, error)


def _delay_after(handler: TaskHandler, task: ClaimedTask, error: BaseException) -> timedelta | None:
    """Return the wait before the next attempt; None, which only ``backoff_after`` may say, if there is none."""
    if type(handler).backoff_after is TaskHandler.backoff_after:
        return _backoff(handler, task.attempts)
    try:
        delay = project.ask(f"backoff_after of {task}", handler.backoff_after, task, error)
        return None if delay is None else _valid_delay(delay)
    except BaseException as error:
        return _default_delay(handler, task.attempts, error)


def _valid_delay(delay: Any) -> timedelta:
    if not isinstance(delay, timedelta):
        raise InvalidOutcome(f"{shown(delay)} was returned: expected a timedelta")
    valid_when(delay, "backoff")
    return delay


def _default_delay(handler: TaskHandler, attempt: int, error: BaseException) -> timedelta:
    text = "%s: its backoff failed, and the default pause is used: %s"
    logger.error(text, handler.biz_code, error, exc_info=error)
    return TaskHandler().backoff(attempt)


def _failed(error: str) -> dict[str, Any]:
    return {"outcome": RunOutcome.FAILED, "then": NextState.FAILED, "error": storable(error)}


def keeps(handler: TaskHandler, outcome: RunOutcome) -> bool:
    """Return whether a run with this outcome leaves a row in the history."""
    kept = handler.keep_history
    return kept is KeepHistory.ALL or isinstance(kept, timedelta) or outcome in _KEPT[kept]


_OUTCOMES = (Done, Fail, Reschedule, Retry)


def _meant_instead(result: Any) -> str:
    """Return "; did you mean …?" for a wrong result of a handler, or an empty string if there is nothing to suggest."""
    try:
        meant = _meant(result)
    except Exception:  # a wrong result may misbehave in any way
        return ""
    return f"; did you mean {meant}?" if meant else ""


def _meant(result: Any) -> str:
    if isinstance(result, type) and result in _OUTCOMES:
        return f"{result.__name__}(...), an instance"
    if result is False:
        return "Retry(reason=...) or Fail(reason)"
    if isinstance(result, BaseException):
        return "to raise it"
    if type(result) in (int, float):
        return "Done(result=...), or timedelta(seconds=...)"
    return "Done(result=...)" if isinstance(result, bool | str | bytes | dict | list | tuple | set) else ""
