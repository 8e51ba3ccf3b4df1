"""Wakes executors after a commit: those in this process; in other processes, if a task is due within two polls.

This is only a hint: polling alone would find the tasks, too. In the mode "inline" there is no executor to wake, and due
tasks run here.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from threading import Event, Lock, local
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks import clock, signals
from django_delayed_tasks.conf import INLINE, settings
from django_delayed_tasks.handlers import find
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import AddAction
from django_delayed_tasks.store.notices.channels import can_notify, notify
from django_delayed_tasks.store.sql.transactions import in_transaction, is_in_test_case
from django_delayed_tasks.store.validation import Schedule, When
from django_delayed_tasks.support import forks

run_inline: Callable[[str], None] | None = None
"""Runs the due tasks of a database in this thread; set when the app is ready."""
_lock = Lock()
_sleepers: set[Event] = set()
_UNWRITTEN = (AddAction.KEPT, AddAction.FILTERED)
ANY = ""
"""Used in place of a queue's name."""
MAX_NAMED = 3
"""The number of queues up to which each gets a notice of its own; beyond it, one notice is for all queues."""


class _Sent(local):
    """For each (alias, queue) the moment, in monotonic seconds, at which this thread last began to send a notice."""

    def __init__(self) -> None:
        self.at: dict[tuple[str, str], float] = {}


_sent = _Sent()


def wake() -> None:
    """Make every executor in this process look for due tasks now."""
    forks.notice()
    with _lock:
        for sleeper in _sleepers:
            sleeper.set()


def when_committed(alias: str, queues: Callable[[], Iterable[str]] = lambda: (ANY,)) -> None:
    """Wake executors once the caller's transaction is committed.

    Executors in this process look for due tasks; those in other processes, where the database can notify them, get
    notices for ``queues()``. If this process has no executor and ``queues()`` is empty, as for most tasks that are due
    later, nothing is done. In the mode "inline", due tasks run after the commit, unless this process has an executor.

    Django does not report the commit of a transaction that was begun by turning autocommit off: no notice is sent then,
    and executors find the task by polling.
    """
    connection = connections[alias]
    if not sees_commit(connection):
        return
    named = sorted(set(queues()))
    if settings.MODE == INLINE and run_inline and not _sleepers:
        if named:
            _run_after_commit(connection, run_inline)
    elif named and settings.NOTIFY and can_notify(alias):
        said = named if len(named) <= MAX_NAMED else [ANY]
        transaction.on_commit(partial(_tell, alias, said, clock.monotonic()), using=alias)
    elif _sleepers:
        transaction.on_commit(wake, using=alias)


def sees_commit(connection: Any) -> bool:
    """Return whether Django will report the commit of the caller's transaction, if there is one."""
    return not in_transaction(connection) or (connection.in_atomic_block and connection.commit_on_exit)


def _run_after_commit(connection: BaseDatabaseWrapper, run: Callable[[str], None]) -> None:
    """Run due tasks when the transaction is committed; at once in that of a TestCase, which never is.

    An error after the commit is only logged: the caller's tasks have been added, and later hooks may add others.
    """

    def run_due() -> None:  # no partial: Django before 6.1 cannot log the error of a hook that has no __qualname__
        run(connection.alias)

    if is_in_test_case(connection):
        run_due()
    else:
        transaction.on_commit(run_due, using=connection.alias, robust=True)


def soon(schedules: Iterable[Schedule]) -> set[str]:
    """Return the queues of the schedules that are due before other processes would find them by polling."""
    span = timedelta(seconds=2 * settings.POLL_INTERVAL)
    until = clock.host_now() + span
    return {schedule.queue for schedule in schedules if _is_before(schedule.when, until, span)}


def is_soon(when: When) -> bool:
    """Return whether this moment is less than two polls away."""
    span = timedelta(seconds=2 * settings.POLL_INTERVAL)
    return _is_before(when, clock.host_now() + span, span)


def _is_before(when: When, until: datetime, span: timedelta) -> bool:
    return when is None or (when < until if isinstance(when, datetime) else when < span)


def _tell(alias: str, queues: Iterable[str], asked: float) -> None:
    wake()
    for queue in queues:
        # A notice that this thread has sent since ``asked`` was sent after the same commit.
        if _sent.at.get((alias, queue), 0.0) < asked:
            _sent.at[alias, queue] = clock.monotonic()
            notify(alias, queue)


def enlist(sleeper: Event) -> None:
    """Have :func:`wake` set this event from now on."""
    with _lock:
        _sleepers.add(sleeper)


def dismiss(sleeper: Event) -> None:
    """Have :func:`wake` no longer set this event."""
    with _lock:
        _sleepers.discard(sleeper)


def when_added(alias: str, schedules: Iterable[Schedule], result: AddResult | None = None) -> None:
    """Wake executors and send ``task_added`` once the caller's transaction is committed."""
    when_committed(alias, lambda: soon(schedules))
    if not signals.task_added.receivers or (result and result.action in _UNWRITTEN):
        return
    if sees_commit(connections[alias]):
        for schedule in schedules:
            transaction.on_commit(_telling(alias, schedule, result), using=alias, robust=True)


def _telling(alias: str, schedule: Schedule, result: AddResult | None) -> Callable[[], None]:
    def tell() -> None:
        signals.task_added.send_robust(
            sender=type(find(schedule.biz_code)), biz_code=schedule.biz_code, biz_num=schedule.biz_num,
            when=schedule.when, queue=schedule.queue, using=alias, result=result,
        )  # fmt: skip

    return tell


def _forget() -> None:
    """Start over in a forked child: the executors belong to its parent, whose threads may have held the lock."""
    global _lock
    _lock = Lock()
    _sleepers.clear()


forks.forget_in_child(_forget)
