"""The run of a function: its context, its result while it runs, and the framework's signals."""

import asyncio
import json
import traceback
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

from django_delayed_tasks import clock
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.function_tasks import data
from django_delayed_tasks.function_tasks.families import Family, family_of
from django_delayed_tasks.function_tasks.history import Life, read_runs
from django_delayed_tasks.function_tasks.ids import id_of
from django_delayed_tasks.function_tasks.results import change, errors_of, running_result
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, is_lost
from django_delayed_tasks.store.settling.settle import path_of
from django_delayed_tasks.store.validation import valid_json

T = TypeVar("T")


def run(function: Any, task: ClaimedTask) -> Any:
    """Call the function with the arguments of ``task``; return what it returned, as JSON has it.

    Raises:
        BaseException: what the function raised.
        ClaimLost: the task was taken from this run, such as for taking too long.
        TypeError, InvalidTask: the function returned something that JSON does not have.
    """
    result, arguments = _begin(function, task)
    return _end(function, task, result, function.call(*arguments, **result.kwargs))


async def arun(function: Any, task: ClaimedTask) -> Any:
    """Do as :func:`run` with a coroutine function; the signals' receivers are called in a thread."""
    result, arguments = await sync_to_async(_begin)(function, task)
    returned = await function.acall(*arguments, **result.kwargs)
    return await _in_any_case(sync_to_async(_end)(function, task, result, returned))


async def _in_any_case(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine to its end, also if the run is cancelled: the function has returned, and that is to count."""
    awaited = asyncio.create_task(coroutine)
    while not awaited.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([awaited])
    return awaited.result()


def _begin(function: Any, task: ClaimedTask) -> tuple[Any, Sequence[Any]]:
    """Announce the start; return the result so far, and the positional arguments of the call."""
    family = family_of(function)
    result = _current_result(function, task)
    _send(family.signals.task_started, result)
    if not function.takes_context:
        return result, result.args
    return result, [context_class(family)(task_result=result, task=task), *result.args]


def _end(function: Any, task: ClaimedTask, result: Any, returned: Any) -> Any:
    """Announce the end; return what the function returned, as JSON has it."""
    family = family_of(function)
    value = _as_json(family, returned)
    if is_lost(task):
        raise ClaimLost(f"{task}: the claim is gone")
    status = family.base.TaskResultStatus.SUCCESSFUL
    change(result, status=status, finished_at=clock.host_now(), _return_value=value)
    _send(family.signals.task_finished, result)
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


def _current_result(function: Any, task: ClaimedTask) -> Any:
    """Return the result while the task runs; only after the first attempt, this takes a query."""
    before = task.attempts - 1 + task.rescues
    runs = read_runs(task.alias, task.id, before, task.version) if before else []
    enqueued = data.read(task.biz_ext, function.module_path)
    life = Life(task.biz_code, task.biz_num, enqueued, None, runs)
    result_id = id_of(task.id, task.biz_num)
    return running_result(function, result_id, life, clock.host_now(), str(task.executor))


def _as_json(family: Family, value: Any) -> Any:
    if value is None:
        return None
    text = valid_json(family.normalize_json(value), settings.MAX_BIZ_EXT_BYTES, "return value")
    return None if text is None else json.loads(text)


def _send(signal: Any, result: Any) -> None:
    if signal.receivers:
        signal.send_robust(sender=type(result.task.get_backend()), task_result=result)


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

    return DelayedTaskContext
