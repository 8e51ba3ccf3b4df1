"""The ``timeout`` of a handler: a thread takes the run, as the watchdog of an executor does.

A coroutine is cancelled then. A thread cannot be stopped: an executor leaves it behind and runs the task again in
another one; here, the end of the handler is waited for, and does not count.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from threading import Event, Thread
from typing import Any

from django_delayed_tasks.exceptions import ClaimLost, TaskTimeout
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.executor.running.watchdog import limit_of
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import lose
from django_delayed_tasks.testing.faults import Call, calling


@contextmanager
def timed(running: CurrentRun) -> Iterator[None]:
    """Abandon the run within the block if it takes longer than its handler allows."""
    handler, limit = find(running.tasks[0].biz_code), limit_of(running.tasks[0])
    if handler is None or limit is None:
        yield
        return
    ended = Event()
    watching = Thread(target=_watch, args=(running, limit, ended), daemon=True)
    watching.start()
    try:
        with calling(handler, partial(_refusing_late_ends, running)) if handler.atomic else nullcontext():
            yield
    finally:
        ended.set()
        watching.join()


def _refusing_late_ends(running: CurrentRun, original: Call) -> Call:
    """Return the call of an atomic handler, which raises after the timeout, so that the transaction is rolled back.

    In production the fence refuses the settlement that the transaction ends with.
    """

    def call(argument: Any) -> Any:
        returned = original(argument)
        if running.is_abandoned:
            raise ClaimLost("the run took longer than its handler allows, and its task was taken from it")
        return returned

    return call


def _watch(running: CurrentRun, limit: float, ended: Event) -> None:
    while not running.has_begun:
        if ended.wait(0.01):
            return
    if ended.wait(limit) or not running.abandon():
        return
    for task in running.tasks:
        lose(task)
    running.interrupted = TaskTimeout("the run took longer than its handler allows")
    while not ended.wait(0.01):
        if call := running.call:
            with suppress(RuntimeError):  # the loop is closed, since the run has just ended
                call.get_loop().call_soon_threadsafe(call.cancel)
            return
