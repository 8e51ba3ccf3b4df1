"""Wakes executors when something due was committed: those of this process, and on PostgreSQL those of others, too.

A hint: polling alone would do.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from threading import Event, Lock, local

from django.db import connections, transaction

from django_delayed_tasks import clock
from django_delayed_tasks.conf import settings
from django_delayed_tasks.store.notices.postgres import can_notify, notify
from django_delayed_tasks.store.sql.transactions import in_transaction
from django_delayed_tasks.store.validation import Schedule, When
from django_delayed_tasks.support import forks

_lock = Lock()
_sleepers: set[Event] = set()
ANY = ""
"""In place of a queue's name."""
MOST_NAMED = 3
"""Queues that are told of one by one."""


class _Said(local):
    """For each (alias, queue) the monotonic second at which this thread last began to say so to other processes."""

    def __init__(self) -> None:
        self.at: dict[tuple[str, str], float] = {}


_said = _Said()


def wake() -> None:
    """Every executor of this process looks for due tasks now."""
    forks.look()
    with _lock:
        for sleeper in _sleepers:
            sleeper.set()


def when_committed(alias: str, queues: Callable[[], Iterable[str]] = lambda: (ANY,)) -> None:
    """Once the caller's transaction is committed, executors of this process look for due tasks; others, where they can
    be told, are told of what is in ``queues()``.

    Of a transaction that was begun by turning autocommit off Django does not say when it is committed: nothing is said,
    and executors find the task when they poll.
    """
    connection = connections[alias]
    if in_transaction(connection) and not (connection.in_atomic_block and connection.commit_on_exit):
        return
    if settings.NOTIFY and can_notify(alias) and (named := sorted(set(queues()))):
        said = named if len(named) <= MOST_NAMED else [ANY]
        transaction.on_commit(partial(_tell, alias, said, clock.monotonic()), using=alias)
    else:
        transaction.on_commit(wake, using=alias)


def soon(schedules: Iterable[Schedule]) -> set[str]:
    """The queues of those that are due before other processes look anyway, which need to be told of these only."""
    return {schedule.queue for schedule in schedules if is_soon(schedule.when)}


def is_soon(when: When) -> bool:
    """Whether it is less than two polls away."""
    if isinstance(when, datetime):
        when = when - clock.host_now()
    return when is None or when.total_seconds() < 2 * settings.POLL_INTERVAL


def _tell(alias: str, queues: Iterable[str], asked: float) -> None:
    wake()
    for queue in queues:
        # What this thread has said since it was asked, it said after the same commit.
        if _said.at.get((alias, queue), 0.0) < asked:
            _said.at[alias, queue] = clock.monotonic()
            notify(alias, queue)


def enlist(sleeper: Event) -> None:
    """From now on :func:`wake` sets this event."""
    with _lock:
        _sleepers.add(sleeper)


def dismiss(sleeper: Event) -> None:
    """No more."""
    with _lock:
        _sleepers.discard(sleeper)


def _forget() -> None:
    """In a forked child: the executors are its parent's, whose threads may have held the lock."""
    global _lock
    _lock = Lock()
    _sleepers.clear()


forks.forget_in_child(_forget)
