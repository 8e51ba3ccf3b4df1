"""START READING HERE. One run: the handler is called, what it came to is decided, and the settlement is the result.

A run begins and ends here and nowhere else. Who writes the settlement is told apart: for most handlers the settler,
for an atomic one :func:`run` itself, as the last statement of the handler's own transaction.
"""

import logging
import traceback
from typing import Any

from django.db import transaction

from django_delayed_tasks import signals
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.executor.deciding import Raised, decide
from django_delayed_tasks.executor.failures import tell_failed
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.states import Then
from django_delayed_tasks.store import ClaimedTask, Settlement, settle

logger = logging.getLogger(__name__)


def run(task: ClaimedTask, handler: TaskHandler, clock: DatabaseClock) -> Settlement | None:
    """Run one claimed task; what is left to be settled, or None if the run has settled itself or has lost its claim."""
    started = clock.now()
    try:
        signals.run_started.send_robust(sender=type(handler), task=task, handler=handler)
        return _run_atomically(task, handler, clock) if handler.atomic else _run_plainly(task, handler, clock)
    except ClaimLost:
        logger.warning("%s: the claim is gone; the run changed nothing", task)
        return None
    except BaseException as error:  # a receiver's SystemExit, say: the claim must be settled all the same
        logger.exception("%s: the run broke off", task)
        return decide(task, handler, _raised(error), started, clock.now())


def _run_plainly(task: ClaimedTask, handler: TaskHandler, clock: DatabaseClock) -> Settlement:
    started = clock.now()
    try:
        result: Any = handler.handle(task)
    except BaseException as error:  # SystemExit in a handler must not end the executor's thread
        result = _raised(error)
    return _ended(task, handler, result, started, clock)


def _run_atomically(task: ClaimedTask, handler: TaskHandler, clock: DatabaseClock) -> Settlement | None:
    started = clock.now()
    try:
        with transaction.atomic(using=task.alias):
            settlement = _ended(task, handler, handler.handle(task), started, clock)
            became = settle(task.alias, [settlement])
            if not became:
                raise ClaimLost(f"{task}: the claim is gone")
    except ClaimLost:
        raise
    except BaseException as error:
        # Rolled back, or the COMMIT's answer was lost: then the fence keeps this settlement from counting.
        return _ended(task, handler, _raised(error), started, clock)
    if became[task.claim] is Then.FAILED:
        tell_failed(task, settlement.error)
    return None


def _raised(error: BaseException) -> Raised:
    return Raised(error, "".join(traceback.format_exception(error)))


def _ended(task: ClaimedTask, handler: TaskHandler, result: Any, started: Any, clock: DatabaseClock) -> Settlement:
    settlement = decide(task, handler, result, started, clock.now())
    signals.run_finished.send_robust(sender=type(handler), task=task, handler=handler, decision=settlement)
    return settlement
