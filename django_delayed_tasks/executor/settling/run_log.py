"""The log of runs: one record for the end of a run, once it is committed, on the logger ``django_delayed_tasks.run``.

ERROR if the task has failed for good, WARNING if it will be tried again, each with the exception. INFO for any other
end, if the handler has ``log = True`` or the logger is at DEBUG.
"""

import logging
import traceback
from datetime import timedelta
from typing import Any, NamedTuple

from django_delayed_tasks.executor import project
from django_delayed_tasks.executor.threads.crew import Crew, CrewThread, Jobs
from django_delayed_tasks.handlers import find
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement, is_final_failure
from django_delayed_tasks.support.durations import plural
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)
run_logger = Log("django_delayed_tasks.run")

MAX_WAITING = 10_000
"""Records that wait for a slow handler of the log, and failures that wait for slow hooks; further ones are left out."""
MAX_REASON = 300
"""Characters of an error in a message; the exception comes with the record."""
_GOOD = frozenset({RunOutcome.DONE, RunOutcome.RESCHEDULED, RunOutcome.EXPIRED})


def logs_good_ends() -> bool:
    """Return whether the end of a run that did not fail may be logged."""
    return run_logger.isEnabledFor(logging.INFO)


def level_of(task: ClaimedTask, settlement: Settlement, then: NextState) -> int | None:
    """Return the level at which this end is logged; None if it is not."""
    if settlement.then is NextState.RELEASED:
        return None
    level = logging.ERROR if is_final_failure(settlement.outcome, then) else logging.WARNING
    if settlement.outcome in _GOOD:
        handler = find(task.biz_code)
        if not (handler and handler.log) and not run_logger.isEnabledFor(logging.DEBUG):
            return None
        level = logging.INFO
    return level if run_logger.isEnabledFor(level) else None


def log_end(task: ClaimedTask, settlement: Settlement, then: NextState) -> None:
    """Log the committed end of a run in this thread; ``then`` is what has become of the task."""
    if level := level_of(task, settlement, then):
        _log(level, task, settlement, then)


def log_broken_batch(tasks: list[ClaimedTask], error: BaseException) -> None:
    """Log that the call for a batch raised, so that its tasks are run one by one."""
    if not run_logger.isEnabledFor(logging.WARNING):
        return
    first = tasks[0]
    keys = {"task_id": None, "biz_num": None, "attempt": None, "lateness": None, "duration": None}
    extra = {**keys, "biz_code": first.biz_code, "executor": first.executor}
    text = "%s: a batch of %d tasks such as %s failed and is run one by one: %s"
    _emit(logging.WARNING, text, (first.biz_code, len(tasks), first.biz_num, _line_of(error)), error, extra)


def _say_slow(left_out: int) -> None:
    ends = plural(left_out, "the end of %d run was", "the ends of %d runs were")
    logger.error(f"the log is slow: {ends} not logged", left_out)


def _log(level: int, task: ClaimedTask, settlement: Settlement, then: NextState) -> None:
    try:
        text, values = _message(settlement, then)
        extra = _extra(task, settlement)
    except Exception:  # a handler may have changed its task in any way
        logger.exception("the end of task %s cannot be logged", settlement.claim)
        return
    _emit(level, f"%s {text}", (task, *values), settlement.exception, extra)


def _emit(level: int, text: str, values: tuple[Any, ...], error: BaseException | None, extra: dict[str, Any]) -> None:
    project.attempt("a handler of the log", _hand_to_handlers, level, text, values, error, extra)


def _hand_to_handlers(
    level: int, text: str, values: tuple[Any, ...], error: BaseException | None, extra: dict[str, Any]
) -> None:
    exc_info = error and _says_more(error) and (type(error), error, error.__traceback__)
    run_logger.log(level, text, *values, exc_info=exc_info, extra=extra)


def _extra(task: ClaimedTask, settlement: Settlement) -> dict[str, Any]:
    started, finished = settlement.started, settlement.finished
    began = started or finished
    return {
        "task_id": task.id,
        "biz_code": task.biz_code,
        "biz_num": task.biz_num,
        "attempt": task.attempts,
        "executor": task.executor,
        "lateness": began and max(began - task.when, timedelta()).total_seconds(),
        "duration": started and finished and (finished - started).total_seconds(),
    }


def _message(settlement: Settlement, then: NextState) -> tuple[str, tuple[Any, ...]]:
    """Return the rest of the message, after the task, and its arguments."""
    if settlement.outcome is RunOutcome.DONE:
        return "is done", ()
    if settlement.outcome is RunOutcome.EXPIRED:
        return "was %s", (settlement.error,)
    if settlement.outcome is RunOutcome.RESCHEDULED:
        return f"is rescheduled {'by' if isinstance(settlement.when, timedelta) else 'to'} %s", (settlement.when,)
    after = (settlement.after.total_seconds(),) if then is NextState.RETRY else ()
    return f"failed{_NEXT.get(then, '')}: %s", (*after, _reason(settlement))


_NEXT = {
    NextState.FAILED: " for good",
    NextState.RECUR: " for good this time; it recurs",
    NextState.RETRY: ", and is tried again in %.3g s",
    NextState.RESCUED: ", and is tried again",
    NextState.AGAIN: ", and runs again as it was scheduled meanwhile",
    NextState.GONE: ", and was cancelled meanwhile",
}


def _reason(settlement: Settlement) -> str:
    error = settlement.exception
    return _cut(settlement.error) if error is None else _line_of(error)


def _line_of(error: BaseException) -> str:
    return _cut("".join(traceback.format_exception_only(error)))


def _says_more(error: BaseException) -> bool:
    """Return whether the traceback has more than the message, which ends with the error: one without frames may not."""
    return error.__traceback__ is not None or "".join(traceback.format_exception(error)).strip() != _line_of(error)


def _cut(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= MAX_REASON else f"{line[: MAX_REASON - 1]}…"


class End(NamedTuple):
    """The committed end of a run, to be logged at ``level``."""

    level: int
    task: ClaimedTask
    settlement: Settlement
    then: NextState

    def __str__(self) -> str:
        return "a handler of the log"


class RunLog:
    """A thread that logs ends: what handles the records, such as a mail to the admins, must not hold up the settler."""

    def __init__(self, alias: str) -> None:
        self._jobs: Jobs[End] = Jobs()
        self._crew = Crew("run log", alias, self._jobs, self._do)
        self._left_out = 0

    def start(self) -> None:
        """Start the thread."""
        self._crew.start()

    def put(self, task: ClaimedTask, settlement: Settlement, then: NextState) -> None:
        """Log the committed end of a run soon, if it is to be logged."""
        if (level := level_of(task, settlement, then)) is None:
            return
        if self._jobs.qsize() < MAX_WAITING:
            self._jobs.put(End(level, task, settlement, then))
        else:
            self._left_out += 1

    def finish(self, timeout: float) -> None:
        """Log what is left and end, within ``timeout`` seconds; log how much is not logged by then."""
        self._crew.finish(timeout)
        if left := self._jobs.left() + len(self._crew.busy()):
            _say_slow(left)

    def _do(self, thread: CrewThread[End], end: End) -> None:
        _log(*end)
        if self._left_out and self._jobs.empty():
            left_out, self._left_out = self._left_out, 0
            _say_slow(left_out)
