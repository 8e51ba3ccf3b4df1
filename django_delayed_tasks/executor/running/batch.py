"""Runs a batch: many tasks of one code in one call of ``handle_batch``, and how such a run ends."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django_delayed_tasks import signals
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.exceptions import InvalidOutcome
from django_delayed_tasks.executor.running.atomic import settle_stubbornly
from django_delayed_tasks.executor.running.batches import Batch
from django_delayed_tasks.executor.running.deciding import Raised, decide, decide_within, keeps, raised
from django_delayed_tasks.executor.running.starting import refuse
from django_delayed_tasks.executor.settling.failures import tell_failed
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.states import Then
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, forget_extra, forget_what_was_read
from django_delayed_tasks.store.settling.settlement import Settlement, is_final_failure
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.support.redaction import shown

logger = logging.getLogger(__name__)


class BatchEnd(NamedTuple):
    """``left``: settlements yet to be written; ``alone``: tasks to be run one by one, as if there had been no batch."""

    left: list[Settlement]
    alone: Batch


def run_batch(tasks: Batch, handler: TaskHandler, clock: DatabaseClock) -> BatchEnd:
    """Call ``handle_batch`` once for the tasks that may still start.

    If it raises for several tasks, none of them is settled: each is then run alone, so that one that cannot be done
    does not hold up the others. If it raises for a single task, the attempt of that task has failed.
    """
    started = clock.now()
    try:
        return _run(tasks, handler, clock, started)
    except BaseException as error:  # even a receiver's SystemExit: the claims must be settled
        logger.exception("a batch of %d tasks such as %s was interrupted", len(tasks), tasks[0])
        finished = clock.now()
        return BatchEnd([decide(task, handler, raised(error), started, finished) for task in tasks], [])


def _run(tasks: Batch, handler: TaskHandler, clock: DatabaseClock, started: datetime) -> BatchEnd:
    refused, to_run = _screened(tasks, handler, started)
    if not to_run:
        return BatchEnd(refused, [])
    way = _run_atomically if handler.atomic else _run_plainly
    try:
        settlements, became = way(to_run, handler, clock, started)
    except BaseException as error:  # SystemExit in a handler must not end the executor's thread
        if len(to_run) > 1:
            logger.warning("a batch of %d tasks such as %s is run one by one: %r", len(to_run), to_run[0], error)
            return BatchEnd(refused, [_as_before(task) for task in to_run])
        settlements, became = [decide(to_run[0], handler, raised(error), started, clock.now())], None
    _announce(to_run, handler, settlements)
    if became is None:
        return BatchEnd(refused + settlements, [])
    _tell_failed(to_run, settlements, became)
    return BatchEnd(refused, [])


def _as_before(task: ClaimedTask) -> ClaimedTask:
    """Undo what the failed batch call, and the checks before it, changed on the task object."""
    forget_what_was_read(task)
    forget_extra(task)
    return task


def _screened(tasks: Batch, handler: TaskHandler, now: datetime) -> tuple[list[Settlement], Batch]:
    refused, to_run = [], []
    for task in tasks:
        if settlement := refuse(task, handler, now):
            refused.append(settlement._replace(keep=keeps(handler, settlement.outcome)))
        else:
            to_run.append(task)
            if signals.run_started.receivers:
                signals.run_started.send_robust(sender=type(handler), task=task, handler=handler)
    return refused, to_run


Decide = Callable[[ClaimedTask, TaskHandler, Any, datetime, datetime], Settlement]
Ends = tuple[list[Settlement], dict[Claim, Then] | None]
"""How the tasks are settled, and their next states if they are settled already."""


def _run_plainly(tasks: Batch, handler: TaskHandler, clock: DatabaseClock, started: datetime) -> Ends:
    return _called(tasks, handler, clock, started, decide), None


def _run_atomically(tasks: Batch, handler: TaskHandler, clock: DatabaseClock, started: datetime) -> Ends:
    return settle_stubbornly(tasks, lambda: _called(tasks, handler, clock, started, decide_within))


def _called(
    tasks: Batch, handler: TaskHandler, clock: DatabaseClock, started: datetime, decide: Decide
) -> list[Settlement]:
    results = _results(handler, handler.handle_batch(list(tasks)), len(tasks))
    finished = clock.now()
    return [decide(task, handler, result, started, finished) for task, result in zip(tasks, results, strict=True)]


def _results(handler: TaskHandler, returned: Any, count: int) -> Sequence[Any]:
    if returned is None:
        return [None] * count
    if not isinstance(returned, list | tuple) or len(returned) != count:
        # The call has had its effects, so the attempts fail: the tasks are not run one by one at once.
        name = f"{type(handler).__qualname__} ({handler.get_biz_code()})"
        error = InvalidOutcome(
            f"{name} returned {shown(returned)}: expected None or {count} outcomes, one for each task"
        )
        return [Raised(error, str(error))] * count
    return [raised(result) if isinstance(result, BaseException) else result for result in returned]


def _announce(tasks: Batch, handler: TaskHandler, settlements: list[Settlement]) -> None:
    if signals.run_finished.receivers:
        for task, settlement in zip(tasks, settlements, strict=True):
            signals.run_finished.send_robust(sender=type(handler), task=task, handler=handler, decision=settlement)


def _tell_failed(tasks: Batch, settlements: list[Settlement], became: dict[Claim, Then]) -> None:
    for task, settlement in zip(tasks, settlements, strict=True):
        if is_final_failure(settlement.outcome, became[task.claim]):
            tell_failed(task, settlement.error)
