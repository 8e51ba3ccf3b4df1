"""The door to a project's code: everything that a project wrote, and an executor calls, is called here.

Handlers, middlewares, receivers of signals, hooks, handlers of the log, keys, imports of functions: each is called in a
clean context, so that it finds nothing that another call has left behind. That includes the active translation and time
zone, and every other context variable. What it leaves on the connections of its thread is looked at afterwards, so that
neither the next call nor a statement of the executor meets it. What it raises, SystemExit too, ends no thread.

Django's connections belong to the thread, whatever its context. But its caches and the backends of its Tasks framework
belong to the context: in a new one, a cache would connect again, and making a backend takes longer than running a
function. So both are created once per thread, in the context that is copied for each call.
"""

import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, ContextVar
from threading import local
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from django.core.cache import caches
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

LEFT_OPEN: Final = "the handler of this run left a transaction open on {!r}: what it wrote there is rolled back"
FRAMEWORKS: Final = ("django.tasks", "django_tasks")
"""The modules of the Tasks framework and of its backport."""

_caller: ContextVar[object] = ContextVar("caller", default=None)
"""The call that this context belongs to, as it is named in the log; None outside of all calls."""


def call(who: object, function: Callable[[Unpack[Ts]], R], *args: *Ts) -> R:
    """Call ``function(*args)``, code of a project; return or raise what it does. The log names it by ``str(who)``."""
    return within(who, step, who, function, *args)


def ask(who: object, function: Callable[[Unpack[Ts]], R], *args: *Ts) -> R:
    """Call what a run asks, such as ``backoff``, like :func:`step`, in a clean context.

    The transaction of an atomic run, in which it may be called, is not ended. Of a run that cannot answer, as one that
    hangs, another thread asks: that is a call of its own.
    """
    if _caller.get() is None:
        return call(who, function, *args)
    begun = _of_atomic_run()
    try:
        answer = context_of(who).run(function, *args)
    except BaseException as error:
        kept_connections.end_transactions(who, error, but=begun)
        raise
    kept_connections.end_transactions(who, but=begun)
    return answer


def within(who: object, function: Callable[[Unpack[Ts]], R], *args: *Ts) -> R:
    """Call ``function(*args)``, which calls the project's code by steps, in one clean context for all of these.

    After a call within another one the connections are the outer one's: of what a step leaves there, a transaction ends
    at once, and all else, such as a wrapper of statements, at the outer one's end.
    """
    if _caller.get() is not None:
        return context_of(who).run(function, *args)
    own = kept_connections.lend()
    try:
        return context_of(who).run(function, *args)
    finally:
        if own is not None:
            own.tidy(who)


def step(who: object, function: Callable[[Unpack[Ts]], R], *args: *Ts) -> R:
    """Call code of a project in the context of :func:`within`, which receivers of a run share with the handler."""
    try:
        returned = function(*args)
    except BaseException as error:
        kept_connections.end_transactions(who, error)
        raise
    kept_connections.end_transactions(who)
    return returned


def work(who: object, function: Callable[[Unpack[Ts]], R], *args: *Ts) -> R:
    """Call like :func:`step`; what it has left open is lost, so that it has failed.

    Raises:
        TransactionManagementError: it has left a transaction open.
    """
    try:
        returned = function(*args)
    except BaseException as error:
        kept_connections.end_transactions(who, error)
        raise
    if left_open := kept_connections.end_transactions(who):
        raise TransactionManagementError(LEFT_OPEN.format(left_open))
    return returned


def refuse_left_open(who: object) -> None:
    """End transactions that the handler of the atomic run ``who`` has left open, other than that of the run.

    Raises:
        TransactionManagementError: there was one, on another database.
    """
    if left_open := kept_connections.end_transactions(who, but=_of_atomic_run()):
        raise TransactionManagementError(LEFT_OPEN.format(left_open))


def _of_atomic_run() -> BaseDatabaseWrapper | None:
    """Return this thread's connection to the database of the tasks if it is in the transaction of an atomic run."""
    own = kept_connections.own()
    return own.connection if own is not None and own.connection.in_atomic_block else None


async def astep(who: object, function: Callable[[Unpack[Ts]], Awaitable[R]], *args: *Ts) -> R:
    """Await ``function(*args)`` like :func:`step`, in a coroutine whose context is from :func:`context_of`."""
    try:
        returned = await function(*args)
    except BaseException as error:
        kept_connections.end_transactions(who, error)
        raise
    kept_connections.end_transactions(who)
    return returned


def attempt(who: object, function: Callable[[Unpack[Ts]], object], *args: *Ts) -> BaseException | None:
    """Call like :func:`call` where no result is needed: log the error that it raises, and return it, or None."""
    try:
        call(who, function, *args)
    except BaseException as error:
        logger.exception("%s raised", who)
        return error
    return None


def context_of(who: object) -> Context:
    """Return a clean context for what is called for ``who``, such as the coroutine of a run."""
    context = _base.context.copy()
    context.run(_caller.set, who)
    return context


def caller_in(context: Context) -> object:
    """Return the ``who`` of the outermost call that the context belongs to; None if it belongs to none."""
    return context.get(_caller)


def caller() -> object:
    """Return the ``who`` of the outermost call that this code is part of; None if it is part of none."""
    return _caller.get()


class _Base(local):
    """The context of this thread that is copied for each call."""

    def __init__(self) -> None:
        self.context = Context()
        self.context.run(_make_kept)


def _make_kept() -> None:
    for kept in (caches, *_task_backends()):
        for alias in kept:
            with suppress(Exception):  # what cannot be created fails its users
                kept[alias]


def _task_backends() -> list[Any]:
    """Return the collections of backends of the frameworks that this process has imported."""
    return [sys.modules[name].task_backends for name in FRAMEWORKS if name in sys.modules]


_base = _Base()
