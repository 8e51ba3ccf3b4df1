"""START READING HERE. One run of one task: call the handler, decide how the run ends, return the settlement.

For most handlers the settler writes the settlement. An atomic run writes it itself, as the last statement of the
handler's own transaction.
"""

import logging
from datetime import datetime
from typing import Any

from django_delayed_tasks import signals
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.executor.running.atomic import settle_stubbornly
from django_delayed_tasks.executor.running.deciding import decide, decide_within, keeps, raised
from django_delayed_tasks.executor.running.starting import refuse
from django_delayed_tasks.executor.settling.failures import tell_failed
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement, is_final_failure

logger = logging.getLogger(__name__)


def run(task: ClaimedTask, handler: TaskHandler, clock: DatabaseClock) -> Settlement | None:
    """Run one claimed task; return the settlement yet to be written, or None if the run has written it itself."""
    started = clock.now()
    try:
        if refused := refuse(task, handler, started):
            return refused._replace(keep=keeps(handler, refused.outcome))
        if signals.run_started.receivers:
            signals.run_started.send_robust(sender=type(handler), task=task, handler=handler)
            started = clock.now()
        way = _run_atomically if handler.atomic else _run_plainly
        return way(task, handler, clock, started)
    except BaseException as error:  # even a receiver's SystemExit: the claim must be settled
        logger.exception("%s: the run was interrupted", task)
        return decide(task, handler, raised(error), started, clock.now())


def _run_plainly(task: ClaimedTask, handler: TaskHandler, clock: DatabaseClock, started: datetime) -> Settlement:
    try:
        result: Any = handler.handle(task)
    except BaseException as error:  # SystemExit in a handler must not end the executor's thread
        result = raised(error)
    settlement = decide(task, handler, result, started, clock.now())
    _announce_end(task, handler, settlement)
    return settlement


def _run_atomically(
    task: ClaimedTask, handler: TaskHandler, clock: DatabaseClock, started: datetime
) -> Settlement | None:
    def handle() -> list[Settlement]:
        return [decide_within(task, handler, handler.handle(task), started, clock.now())]

    try:
        [settlement], became = settle_stubbornly([task], handle)
    except BaseException as error:
        return _rolled_back(task, handler, error, started, clock)
    _announce_end(task, handler, settlement)
    if is_final_failure(settlement.outcome, became[task.claim]):
        tell_failed(task, settlement.error)
    return None


def _rolled_back(
    task: ClaimedTask, handler: TaskHandler, error: BaseException, started: datetime, clock: DatabaseClock
) -> Settlement:
    """Return what to settle instead; the fence refuses it if the claim is gone or the run was committed after all."""
    if isinstance(error, ClaimLost):
        logger.warning("%s; the run changed nothing", error)
    settlement = decide(task, handler, raised(error), started, clock.now())
    _announce_end(task, handler, settlement)
    return settlement


def _announce_end(task: ClaimedTask, handler: TaskHandler, settlement: Settlement) -> None:
    if signals.run_finished.receivers:
        signals.run_finished.send_robust(sender=type(handler), task=task, handler=handler, decision=settlement)
