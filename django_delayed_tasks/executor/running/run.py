"""One run: from the tasks that a thread took to their settlements, which the settler writes.

A single task is a batch of one. Tasks that are too late are refused, ``run_started`` is sent for the others, the
handler is called, how each task ends is decided, and ``run_finished`` is sent. For most handlers the settler writes the
settlements. An atomic run writes them itself, as the last statement of the handler's own transaction.

:func:`run` does this in a worker thread; ``awaited_run.py`` does it on the event loop, where the call is awaited.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django_delayed_tasks import signals
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.exceptions import ClaimLost, InvalidTrigger
from django_delayed_tasks.executor import project
from django_delayed_tasks.executor.room.lines import Batch
from django_delayed_tasks.executor.running.atomic import Settled, settle_with_retries
from django_delayed_tasks.executor.running.batch_results import raised_for, results_of, settlements_of, split_by_blame
from django_delayed_tasks.executor.running.deciding import RaisedError, decide, decide_within, keeps, raised
from django_delayed_tasks.executor.settling.failure_reports import report_here
from django_delayed_tasks.executor.settling.run_log import log_broken_batch, logs_good_ends
from django_delayed_tasks.executor.tally import tally_of
from django_delayed_tasks.handlers import TaskHandler, middleware
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import (
    ClaimedTask,
    forget_extra,
    forget_what_was_read,
    is_early,
    recurs,
    run_extra,
)
from django_delayed_tasks.store.schedules.recurrence import recurrence
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.support.logs import Log
from django_delayed_tasks.triggers import Trigger, next_time, run_to_start, time_of

logger = Log(__name__)

Call = Callable[[], Any]
"""The call of the handler: it returns or raises what the handler does."""
Decide = Callable[[ClaimedTask, TaskHandler, Any, datetime, datetime, int | None], Settlement]
Became = Mapping[Claim, NextState]
"""The next states of the tasks that the run has settled itself; empty if it leaves that to the settler."""


RunEnd = tuple[list[Settlement], Batch]
"""(settlements yet to be written, tasks to be run one by one, as if there had been no batch)."""
Start = tuple[Batch, datetime, list[Settlement]]
"""(the tasks to run, when their run started, the settlements of those that are refused).

Plain tuples: a named one costs a thread two percent of what a run costs it.
"""


def run(tasks: Batch, handler: TaskHandler, clock: DatabaseClock, max_rescues: int | None = None) -> RunEnd:
    """Call the handler once for the tasks that may still start; ``max_rescues`` is as in :func:`decide`.

    If it raises for several tasks, none of them is settled: each is then run alone, so that one that cannot be done
    does not hold up the others. If it raises for a single task, the attempt of that task has failed.
    """
    now = clock.now()
    try:
        start = begin(tasks, handler, clock, now, max_rescues)
        to_run = start[0]
        if to_run and not handler.atomic:
            call = partial(project.work, to_run[0], middleware.caller(), handler, to_run)
        else:
            call = partial(_call_within, handler, to_run)
        return call_and_decide(start, handler, clock, max_rescues, call)
    except BaseException as error:  # even a receiver's SystemExit: the claims must be settled
        return interrupted(tasks, handler, clock, now, error, max_rescues)


def _call_within(handler: TaskHandler, tasks: Batch) -> Any:
    """Call an atomic handler inside of its transaction, which as a whole is a call of the project's code."""
    returned = middleware.caller()(handler, tasks)
    project.refuse_left_open(tasks[0])
    return returned


def begin(
    tasks: Batch, handler: TaskHandler, clock: DatabaseClock, now: datetime, max_rescues: int | None = None
) -> Start:
    """Refuse tasks that are too late, and send ``run_started`` for the others."""
    to_run: Batch = []
    refused: list[Settlement] = []
    for task in tasks:
        if settlement := refusal(task, handler, now):
            refused.append(settlement)
            continue
        to_run.append(task)
        if recurs(task):
            _choose_time(task, now)
    if to_run and signals.run_started.receivers:
        for task, error in _announce_start(to_run, handler):
            to_run.remove(task)
            refused += interrupted([task], handler, clock, now, error, max_rescues)[0]
        now = clock.now()  # the receivers' time does not count
    return to_run, now, refused


def call_and_decide(
    start: Start, handler: TaskHandler, clock: DatabaseClock, max_rescues: int | None, call: Call
) -> RunEnd:
    """Call the handler by ``call()``, decide how each task ends, and send the signals of that."""
    tasks, started, refused = start
    if not tasks:
        return refused, []
    became: Became = {}
    alone: Batch = []
    try:
        if handler.atomic:
            for task in tasks:
                project.step(task, handler._before_transaction, task)
            settlements, became = project.step(tasks[0], _settled, tasks, handler, clock, started, call)
        else:
            settlements = _decided(tasks, handler, clock, started, decide, call, max_rescues)
    except BaseException as error:  # SystemExit in a handler must not end the executor's thread
        tasks, alone = split_by_blame(tasks, error)
        if alone:
            log_broken_batch(alone, raised(error).error)
        finished = clock.now()
        settlements = [decide(task, handler, raised_for(task, error), started, finished, max_rescues) for task in tasks]
    if became or signals.run_finished.receivers:
        _announce_end(tasks, handler, settlements, became)
    return refused if became else [*refused, *settlements], [_as_before(task) for task in alone]


def interrupted(
    tasks: Batch,
    handler: TaskHandler,
    clock: DatabaseClock,
    started: datetime,
    error: BaseException,
    max_rescues: int | None,
) -> RunEnd:
    """Return how tasks end whose run was ended by an error from outside of the handler."""
    logger.warning("%s: the run was interrupted by %s", _named(tasks), type(error).__name__)
    finished = clock.now()
    return [failed(task, handler, raised(error), started, finished, max_rescues) for task in tasks], []


def _named(tasks: Batch) -> str:
    return f"{tasks[0]}" if len(tasks) == 1 else f"a batch of {len(tasks)} tasks such as {tasks[0]}"


def refusal(task: ClaimedTask, handler: TaskHandler, now: datetime) -> Settlement | None:
    """Return the settlement of a task that is too late to start, or None if it may start; change nothing.

    Lateness is checked before the first attempt only: a retry belongs to a run that was on time.
    """
    try:
        trigger = task.trigger
    except InvalidTrigger as error:
        keep = keeps(handler, RunOutcome.FAILED)
        invalid = Settlement(task.claim, RunOutcome.FAILED, NextState.FAILED, finished=now, error=str(error), keep=keep)
        return invalid._replace(keep_data=handler.keep_data)
    if trigger is None and task.expires_at is None and handler.max_lateness is None:
        return None
    if trigger and is_early(task):
        return None
    now = max(now, task.when)  # it was claimed, so it is due: the estimate of the database's clock may be a bit behind
    if not (why := _too_late(task, handler, trigger, now)):
        return None
    keep = keeps(handler, RunOutcome.EXPIRED)
    when = time_of(trigger, task.when, now) if trigger else task.when
    next_one = recurrence(trigger, next_time(trigger, when, now)) if trigger else {}
    expired = Settlement(task.claim, RunOutcome.EXPIRED, NextState.GONE, finished=now, keep=keep, stood_for=when)
    return expired._replace(error=f"not started: {why}", keep_data=handler.keep_data, **next_one)


def failed(
    task: ClaimedTask,
    handler: TaskHandler,
    error: RaisedError,
    started: datetime,
    finished: datetime,
    max_rescues: int | None = None,
) -> Settlement:
    """Return how a task ends that failed outside of its handler; one that was too late to start has not been run."""
    return refusal(task, handler, started) or decide(task, handler, error, started, finished, max_rescues)


def _too_late(task: ClaimedTask, handler: TaskHandler, trigger: Trigger | None, now: datetime) -> str:
    """Return why it is too late to start the run; an empty string if it is not."""
    if task.expires_at is not None and now > task.expires_at:
        return f"it expired at {task.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    if task.attempts > 1:
        return ""
    when = run_to_start(trigger, task.when, now) if trigger else task.when
    if when is None:
        return f"{now - task.when} late, which the trigger's grace does not allow"
    if handler.max_lateness is None:
        return ""
    lateness = handler.longest_lateness
    if lateness is None or now - when <= lateness + (trigger.longest_jitter if trigger else timedelta()):
        return ""
    return f"{now - when} late, {lateness} at most"


def _choose_time(task: ClaimedTask, now: datetime) -> None:
    """Set ``task.when`` to the time that the run of a recurring task stands for.

    If no executor could run the task for a while, the trigger's ``misfire`` chooses that time, by default the latest.
    """
    if is_early(task):
        run_extra(task, now)
    elif trigger := task.trigger:
        task.when = time_of(trigger, task.when, now)


def _as_before(task: ClaimedTask) -> ClaimedTask:
    """Undo what the failed batch call, and the checks before it, changed on the task object."""
    forget_what_was_read(task)
    forget_extra(task)
    return task


def _settled(tasks: Batch, handler: TaskHandler, clock: DatabaseClock, started: datetime, call: Call) -> Settled:
    """Call the handler, decide how each task ends, and settle that, all in one transaction."""
    try:
        return settle_with_retries(tasks, lambda: _decided(tasks, handler, clock, started, decide_within, call))
    except ClaimLost as error:
        logger.warning("%s; the run changed nothing", error)
        raise


def _decided(
    tasks: Batch,
    handler: TaskHandler,
    clock: DatabaseClock,
    started: datetime,
    decide: Decide,
    call: Call,
    max_rescues: int | None = None,
) -> list[Settlement]:
    """Call the handler, and decide how each task ends."""
    if not handler.is_batched:
        [task] = tasks
        return [decide(task, handler, call(), started, clock.now(), max_rescues)]
    results = results_of(handler, call(), len(tasks))
    finished = clock.now()
    return settlements_of(
        tasks, results, lambda task, result: decide(task, handler, result, started, finished, max_rescues)
    )


def _announce_start(tasks: Batch, handler: TaskHandler) -> list[tuple[ClaimedTask, BaseException]]:
    """Send ``run_started``; return the tasks whose run a receiver has ended, as by SystemExit, and the errors."""
    ended: list[tuple[ClaimedTask, BaseException]] = []
    for task in tasks:
        send = partial(signals.run_started.send_robust, sender=type(handler), task=task, handler=handler)
        if error := _announce(f"a receiver of run_started for {task}", send):
            ended.append((task, error))
    return ended


def _announce_end(tasks: Batch, handler: TaskHandler, settlements: list[Settlement], became: Became) -> None:
    """Send ``run_finished``; report and count the ends that the run has committed itself."""
    if became:
        for task, settlement in zip(tasks, settlements, strict=True):
            _announce(f"a receiver of the end of {task}", partial(handler._after_commit, task, settlement))
    if signals.run_finished.receivers:
        for task, settlement in zip(tasks, settlements, strict=True):
            _announce_one_end(task, handler, settlement)
    if became:
        tally_of(tasks[0].alias).count(settlements, became, {task.claim: task for task in tasks}.get)
        with_good_ends = logs_good_ends()
        for task, settlement in zip(tasks, settlements, strict=True):
            if settlement.outcome is not RunOutcome.DONE or with_good_ends:
                report_here(task, settlement, became[settlement.claim])


def _announce_one_end(task: ClaimedTask, handler: TaskHandler, settlement: Settlement) -> None:
    ended = {"decision": settlement, "exception": settlement.exception}
    send = partial(signals.run_finished.send_robust, sender=type(handler), task=task, handler=handler, **ended)
    _announce(f"a receiver of run_finished for {task}", send)


def _announce(who: str, send: Call) -> BaseException | None:
    """Send a signal of the run; log and return what a receiver raises that is no Exception, such as SystemExit."""
    try:
        project.step(who, send)
    except BaseException as error:
        logger.exception("%s raised", who)
        return error
    return None
