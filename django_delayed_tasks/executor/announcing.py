"""Announces what happens outside of handlers: to the meter, and to the receivers of signals."""

from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from django.db import Error
from django.dispatch import Signal

from django_delayed_tasks import clock, signals
from django_delayed_tasks.executor import meter
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.queue_names import unnamed
from django_delayed_tasks.executor.tally import tally_of
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.reap import Taken
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.support.exits import in_one_process
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


def claimed(tasks: Collection[ClaimedTask], began: float) -> None:
    """Announce tasks that were claimed, by statements that began at this monotonic second."""
    if counts := meter.current:
        counts.note_claim(tasks, clock.monotonic() - began)
    if signals.task_claimed.receivers:
        for task in tasks:
            _send(signals.task_claimed, type(find(task.biz_code)), task=task)


def reaped(alias: str, taken: Collection[Taken]) -> None:
    """Announce tasks that were taken from dead executors."""
    tally_of(alias).count_lost(taken)
    if signals.tasks_reaped.receivers:
        codes, executors = Counter(one.biz_code for one in taken), Counter(one.executor for one in taken)
        _send(signals.tasks_reaped, None, codes=dict(codes), executors=dict(executors))


def starting(executor: int, options: ExecutorOptions) -> None:
    """Say which queues of an executor that is about to start nothing else names."""
    chosen = [*(options.queues or ()), *options.exclude_queues]
    with suppress(Error):
        for queue in unnamed(options.database, chosen, besides=executor):
            logger.warning("no task, handler or other executor names the queue %r: is it spelled right?", queue)


def started(executor: int, options: ExecutorOptions) -> None:
    """Announce that an executor has started."""
    _send(signals.executor_started, None, executor=executor, name=options.name)


def stopped(executor: int, options: ExecutorOptions, is_clean: bool) -> None:
    """Announce that an executor has stopped."""
    _send(signals.executor_stopped, None, executor=executor, name=options.name, is_clean=is_clean)


def _send(signal: Signal, sender: Any, **arguments: Any) -> None:
    if not signal.receivers:
        return
    try:
        try:
            in_one_process(signal.send_robust, sender=sender, **arguments)
        finally:  # in a transaction that a receiver left open, the next claims would not be committed
            kept_connections.tidy_after("a receiver of a signal")
    except BaseException:  # even a receiver's SystemExit: it must end no thread of the executor
        logger.exception("a receiver of a signal raised")
