"""Announces what happens outside of handlers: to the meter, and to receivers of signals; warns of misspelled queues."""

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from django.db import Error
from django.dispatch import Signal

from django_delayed_tasks import clock, signals
from django_delayed_tasks.executor import meter, project
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.tally import tally_of
from django_delayed_tasks.handlers import find, get_task_handlers
from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.waiting import read_agenda
from django_delayed_tasks.store.settling.reap import ReapedTask
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


def claimed(tasks: Collection[ClaimedTask], began: float) -> None:
    """Announce tasks that were claimed, by statements that began at this monotonic second."""
    if counts := meter.current:
        counts.note_claim(tasks, clock.monotonic() - began)
    if signals.task_claimed.receivers:
        for task in tasks:
            _send("task_claimed", type(find(task.biz_code)), task=task)


def reaped(alias: str, taken: Collection[ReapedTask]) -> None:
    """Announce tasks that were taken from dead executors."""
    tally_of(alias).count_lost(taken)
    if taken and signals.tasks_reaped.receivers:
        codes, executors = Counter(one.biz_code for one in taken), Counter(one.executor for one in taken)
        _send("tasks_reaped", None, codes=dict(codes), executors=dict(executors))


def starting(executor: int, options: ExecutorOptions) -> None:
    """Say which queues of an executor that is about to start nothing else names."""
    chosen = [*(options.queues or ()), *options.exclude_queues]
    with suppress(Error):
        for queue in unnamed(options.database, chosen, besides=executor):
            logger.warning("no task, handler or other executor names the queue %r: is it spelled right?", queue)


def started(executor: int, options: ExecutorOptions) -> None:
    """Announce that an executor has started."""
    _send("executor_started", None, executor=executor, name=options.name)


def stopped(executor: int, options: ExecutorOptions, is_clean: bool) -> None:
    """Announce that an executor has stopped."""
    _send("executor_stopped", None, executor=executor, name=options.name, is_clean=is_clean)


def unnamed(alias: str, queues: Sequence[str], besides: int = 0) -> list[str]:
    """Return which of these queues no task has, no handler here has by default, and no live executor was started for.

    ``besides``: the id of an executor that does not count.
    """
    known = {handler.queue for handler in get_task_handlers().values()}
    if not (doubtful := [queue for queue in queues if queue not in known]):
        return []
    for names in Executor.objects.using(alias).filter(alive=True).exclude(pk=besides).values_list("queues", flat=True):
        known.update(names or ())
    levels = read_agenda(alias).levels
    known.update(level.queue for level in levels)
    lanes = {"", *(level.lane for level in levels)}
    return [queue for queue in doubtful if queue not in known and not _has_tasks(alias, queue, lanes)]


def _has_tasks(alias: str, queue: str, lanes: Collection[str]) -> bool:
    # The condition names every status and lane, because the claim index starts with them.
    tasks = Task.objects.using(alias).filter(status__in=TaskStatus.values, lane__in=sorted(lanes), queue=queue)
    return tasks.exists()


def _send(name: str, sender: Any, /, **arguments: Any) -> None:
    signal: Signal = getattr(signals, name)
    if signal.receivers:
        project.attempt(f"a receiver of {name}", partial(signal.send_robust, sender=sender, **arguments))
