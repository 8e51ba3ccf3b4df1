"""Leases in coroutines: a thread queries the database, since Django allows no query in the thread of an event loop.

Each acquisition and each release has a thread of its own, whose connection is closed at its end. In a thread or a pool
of threads that others use, such as that of ``sync_to_async``, the release of a lease could come after the acquisitions
that wait for it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextvars import copy_context
from threading import Thread
from typing import Any, TypeVar

from django.db import Error, connections

from django_delayed_tasks.handlers.middleware import for_coroutines
from django_delayed_tasks.support.logs import Log

T = TypeVar("T")
IsCancelled = Callable[[], bool]

logger = Log(__name__)


class Cancelled(Exception):
    """The task that wanted the lease was cancelled."""


def never() -> bool:
    """Return that the caller is not cancelled."""
    return False


def leave_alone(result: Any) -> None:
    """Undo nothing."""


async def in_thread(call: Callable[[IsCancelled], T], undo: Callable[[T], object] = leave_alone) -> T:
    """Return ``call(is_cancelled)``, which is called in a thread of its own.

    If this coroutine is cancelled, the call ends by itself, and ``undo(result)`` is called in a thread.
    """
    result: Future[T] = Future()

    def work() -> None:
        try:
            returned = for_coroutines(call)(result.cancelled)
        except BaseException as error:
            _fail(result, error)
        else:
            try:
                result.set_result(returned)
            except InvalidStateError:
                undo(returned)

    _start(work)
    try:
        return await asyncio.wrap_future(result)
    except BaseException:
        if not result.cancel() and result.exception() is None:  # the thread was faster
            _start(lambda: undo(result.result()))
        raise


def _fail(result: "Future[Any]", error: BaseException) -> None:
    try:
        result.set_exception(error)
    except InvalidStateError:  # no coroutine will see it
        if not isinstance(error, Cancelled):
            logger.warning("a lease of a coroutine that was cancelled: %s: %s", type(error).__name__, error)


def _start(work: Callable[[], object]) -> None:
    def run() -> None:
        try:
            work()
        except Error as error:  # the lease is no longer renewed
            logger.warning("a lease could not be given back; it is free after its ttl: %s", error)
        finally:
            connections.close_all()

    # Not a daemon: the process ends when what was cancelled is given back.
    Thread(target=copy_context().run, args=[run], name="ddt-lease-of-coroutine").start()
