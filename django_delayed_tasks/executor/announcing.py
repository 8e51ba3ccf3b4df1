"""Announces to the receivers of signals what happens outside of runs; a signal without receivers costs a comparison."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.dispatch import Signal

from django_delayed_tasks import signals
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.reap import Taken
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


def claimed(tasks: Iterable[ClaimedTask]) -> None:
    """Announce tasks that were claimed."""
    if signals.task_claimed.receivers:
        for task in tasks:
            _send(signals.task_claimed, type(find(task.biz_code)), task=task)


def reaped(taken: Iterable[Taken]) -> None:
    """Announce tasks that were taken from dead executors."""
    if signals.tasks_reaped.receivers:
        codes, executors = Counter(one.biz_code for one in taken), Counter(one.executor for one in taken)
        _send(signals.tasks_reaped, None, codes=dict(codes), executors=dict(executors))


def started(executor: int, options: ExecutorOptions) -> None:
    """Announce that an executor has started."""
    _send(signals.executor_started, None, executor=executor, name=options.name)


def stopped(executor: int, options: ExecutorOptions, is_clean: bool) -> None:
    """Announce that an executor has stopped."""
    _send(signals.executor_stopped, None, executor=executor, name=options.name, is_clean=is_clean)


def _send(signal: Signal, sender: Any, **arguments: Any) -> None:
    try:
        if signal.receivers:
            signal.send_robust(sender=sender, **arguments)
    except BaseException:  # even a receiver's SystemExit: it must end no thread of the executor
        logger.exception("a receiver of a signal raised")
