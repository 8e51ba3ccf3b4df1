"""The run of a function: the call itself, its context, its result while it runs, and the framework's signals.

The result while it runs is made only if something reads it: the function's context, a receiver of a signal, or a
handler of the framework's log, to which its own receivers write. Otherwise it would take longer than all else in a run.
"""

import asyncio
import json
import logging
import traceback
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings as project
from django.utils.log import RequireDebugTrue

from django_delayed_tasks import clock
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.function_tasks import data
from django_delayed_tasks.function_tasks.families import Family, family_of
from django_delayed_tasks.function_tasks.history import Life, missing, read_runs
from django_delayed_tasks.function_tasks.ids import id_of
from django_delayed_tasks.function_tasks.results import change, errors_of, running_result
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, is_lost
from django_delayed_tasks.store.settling.settle import path_of
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.validation import valid_json
from django_delayed_tasks.support.forks import is_success

T = TypeVar("T")


def run(function: Any, task: ClaimedTask) -> Any:
    """Call the function with the arguments of ``task``; return what it returned, as JSON has it.

    Raises:
        BaseException: what the function raised.
        ClaimLost: the task was taken from this run, such as for taking too long.
        TypeError, InvalidTask: the function returned something that JSON does not have.
    """
    if _needs_result(function):
        begun = _begin(function, task)
        return _end(function, task, begun, _call(function, begun.args, begun.kwargs))
    return run_unheard(function, task)


def run_unheard(function: Any, task: ClaimedTask) -> Any:
    """Run like :func:`run`, but send no signals."""
    if function.takes_context:
        args, kwargs, _ = _with_context(function, task, _current_result(function, task))
    else:
        args, kwargs = data.arguments_in(task.biz_ext)
    return _value(function, task, _call(function, args, kwargs))


def _call(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    # The framework's own method asks for each call whether the function is a coroutine function, which takes longer
    # than the rest of the call. A project's subclass may have a method of its own.
    try:
        if type(function).call is family_of(function).base.Task.call:
            return function.func(*args, **kwargs)
        return function.call(*args, **kwargs)
    except SystemExit as error:
        if not is_success(error):
            raise
        return None


async def _acall(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    try:
        return await function.acall(*args, **kwargs)
    except SystemExit as error:
        if not is_success(error):
            raise
        return None


async def arun(function: Any, task: ClaimedTask) -> Any:
    """Like :func:`run`, for a coroutine function; steps that may have to wait are done in a thread.

    That is a query for earlier attempts, and the receivers of the signals, except for the ones that write the log.
    """
    waits = _earlier_attempts(task) > 0 or _has_receivers(family_of(function))
    begun = await sync_to_async(_begin)(function, task) if waits else _begin(function, task)
    returned = await _acall(function, begun.args, begun.kwargs)
    if not waits:
        return _end(function, task, begun, returned)
    return await _in_any_case(sync_to_async(_end)(function, task, begun, returned))


async def _in_any_case(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine to its end, also if the run is cancelled: the function has returned, and that is to count."""
    awaited = asyncio.create_task(coroutine)
    while not awaited.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([awaited])
    return awaited.result()


class _BegunRun(NamedTuple):
    """A run that has begun: the arguments of the call, and the result so far; None if nothing reads it."""

    args: Sequence[Any]
    kwargs: dict[str, Any]
    result: Any | None

    def __repr__(self) -> str:
        return object.__repr__(self)  # without the data, which may hold secrets


def _needs_result(function: Any) -> bool:
    """Return whether anything reads the result while the function runs, or as soon as it has returned."""
    return function.takes_context or _is_heard(family_of(function))


def _begin(function: Any, task: ClaimedTask) -> _BegunRun:
    """Announce the start."""
    if not _needs_result(function):
        return _BegunRun(*data.arguments_in(task.biz_ext), None)
    result = _current_result(function, task)
    _send(family_of(function).signals.task_started, result)
    if function.takes_context:
        return _with_context(function, task, result)
    return _BegunRun(result.args, result.kwargs, result)


def _with_context(function: Any, task: ClaimedTask, result: Any) -> _BegunRun:
    context = context_class(family_of(function))(task_result=result, task=task)
    return _BegunRun([context, *result.args], result.kwargs, result)


def _end(function: Any, task: ClaimedTask, begun: _BegunRun, returned: Any) -> Any:
    """Announce the end; return what the function returned, as JSON has it."""
    value = _value(function, task, returned)
    if begun.result is not None:
        _send_success(function, begun.result, value, clock.host_now())
    return value


def _send_success(function: Any, result: Any, value: Any, finished: datetime | None) -> None:
    family = family_of(function)
    change(result, status=family.base.TaskResultStatus.SUCCESSFUL, finished_at=finished, _return_value=value)
    _send(family.signals.task_finished, result)


def announce_start(function: Any, task: ClaimedTask) -> None:
    """Send ``task_started`` for a function that is called by :func:`run_unheard`."""
    family = family_of(function)
    if _is_heard(family):
        _send(family.signals.task_started, _current_result(function, task))


def announce_success(function: Any, task: ClaimedTask, settlement: Settlement) -> None:
    """Send ``task_finished`` for a function that was called by :func:`run_unheard`, and has been settled so."""
    if _is_heard(family_of(function)):
        value = None if settlement.result is None else json.loads(settlement.result)
        result = _current_result(function, task, settlement.started)
        _send_success(function, result, value, settlement.finished)


def _value(function: Any, task: ClaimedTask, returned: Any) -> Any:
    """Return the function's return value as JSON, if its end still counts."""
    value = None if returned is None else _as_json(family_of(function), returned)
    if is_lost(task):
        raise ClaimLost(f"{task}: the claim is gone")
    return value


def failed_result(function: Any, task: ClaimedTask, exception: BaseException, error: str = "") -> Any:
    """Return the result of a run that has ended in this exception."""
    family = family_of(function)
    result = _current_result(function, task)
    text = error or "".join(traceback.format_exception(exception))
    result.errors.extend(errors_of(family, [(path_of(type(exception)), text)]))
    change(result, status=family.base.TaskResultStatus.FAILED, finished_at=clock.host_now())
    return result


def announce_failure(function: Any, task: ClaimedTask, exception: BaseException, error: str) -> None:
    """Send ``task_finished`` for a task that has failed for good."""
    _send(family_of(function).signals.task_finished, failed_result(function, task, exception, error))


def _current_result(function: Any, task: ClaimedTask, started: datetime | None = None) -> Any:
    """Return the result while the task runs, from now if not ``started`` before.

    Only after the first attempt, this takes a query.
    """
    before = _earlier_attempts(task)
    runs = read_runs(task.alias, task.id, before, task.version) if before else []
    enqueued = data.read(task.biz_ext, function.module_path, task.biz_num)
    life = Life(task.biz_code, task.biz_num, enqueued, None, runs, missing(before, runs))
    result_id = id_of(task.id, task.biz_num)
    return running_result(function, result_id, life, started or clock.host_now(), str(task.executor))


def _earlier_attempts(task: ClaimedTask) -> int:
    return task.attempts - 1 + task.rescues


def _is_heard(family: Family) -> bool:
    """Return whether the start or the good end of a run would be received, or be logged somewhere."""
    return _has_receivers(family) or is_logged(family.signals.logger)


def is_logged(logger: logging.Logger | None) -> bool:
    """Return whether a handler takes lines of INFO; in Django's default configuration that is so with DEBUG alone."""
    if logger and not logger.isEnabledFor(logging.INFO):
        return False
    while logger is not None:
        for handler in logger.handlers:
            if handler.level <= logging.INFO and (project.DEBUG or RequireDebugTrue not in map(type, handler.filters)):
                return True
        logger = logger.parent if logger.propagate else None
    return False


def _has_receivers(family: Family) -> bool:
    """Return whether more receives the start or the end of a run than what writes the framework's log."""
    signals = family.signals
    return _has_other(signals.task_started, signals.log_task_started) or _has_other(
        signals.task_finished, signals.log_task_finished
    )


def _has_other(signal: Any, own: Any) -> bool:
    """Return whether a signal has another receiver than ``own``, which is connected once at most."""
    # has_listeners() would say yes in every case: the framework's own receivers are connected, too.
    receivers = signal.receivers
    return len(receivers) > 1 or (len(receivers) == 1 and receivers[0][0][0] != id(own))


def _send(signal: Any, result: Any) -> None:
    if signal.receivers:
        signal.send_robust(sender=type(result.task.get_backend()), task_result=result)


def _as_json(family: Family, value: Any) -> Any:
    normal = data.normalized(family, "return value", value)
    text = valid_json(normal, settings.MAX_BIZ_EXT_BYTES, "return value")
    return None if text is None else json.loads(text)


@cache
def context_class(family: Family) -> Any:
    """Return the class of the context that a function gets if its task ``takes_context``."""
    parent: Any = family.base.TaskContext

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DelayedTaskContext(parent):  # type: ignore[misc]
        """The framework's context, and what a run can ask this store, and tell it."""

        task: ClaimedTask

        @property
        def cancel_requested(self) -> bool:
            """Whether the run has been asked to stop; queries the database at most once a second."""
            return self.task.cancel_requested

        async def acancel_requested(self) -> bool:
            """Like :attr:`cancel_requested`, to be awaited."""
            return await self.task.acancel_requested()

        @property
        def fencing_token(self) -> int:
            """A number that grows with every attempt; an external system can refuse a smaller one."""
            return self.task.fencing_token

        def progress(self, fraction: float, note: str = "") -> None:
            """Report how far the run has come, from 0 to 1; see ``ClaimedTask.progress``."""
            self.task.progress(fraction, note)

        def check_claim(self) -> None:
            """Raise ClaimLost if the task was taken from this run; see ``ClaimedTask.check_claim``."""
            self.task.check_claim()

        async def acheck_claim(self) -> None:
            """Like :meth:`check_claim`, to be awaited."""
            await self.task.acheck_claim()

    return DelayedTaskContext
