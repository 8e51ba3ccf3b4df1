"""A run of an async handler: the steps of ``run.py``, of which the call of the handler is awaited."""

import asyncio
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from django_delayed_tasks import signals
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.executor import project
from django_delayed_tasks.executor.room.lines import Batch
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.executor.running.deciding import GivenBack
from django_delayed_tasks.executor.running.run import RunEnd, begin, call_and_decide, interrupted
from django_delayed_tasks.handlers import TaskHandler, middleware

P = ParamSpec("P")
R = TypeVar("R")


async def arun(
    tasks: Batch,
    handler: TaskHandler,
    clock: DatabaseClock,
    max_rescues: int | None,
    running: CurrentRun,
) -> RunEnd:
    """Run an async handler like :func:`run`; only its call, ``running.call``, can be cancelled.

    Receivers of signals, and what follows a failure, may query the database. They are called in the thread that does
    so for coroutines.
    """
    now = clock.now()
    try:
        start = await _apart(bool(signals.run_started.receivers), begin, tasks, handler, clock, now, max_rescues)
        tasks_to_run, _, _ = start
        answer = await _call(running, handler, tasks_to_run) if tasks_to_run else Answer()
        has_failed = answer.error is not None and not isinstance(answer.error, GivenBack)
        is_slow = has_failed or bool(signals.run_finished.receivers)
        return await _apart(is_slow, call_and_decide, start, handler, clock, max_rescues, answer)
    except GeneratorExit:  # the loop is closed, and the run was left behind
        raise
    except BaseException as error:
        return await _apart(True, interrupted, tasks, handler, clock, now, error, max_rescues)


class Answer:
    """The value that an async handler has returned, or the error that it has raised; a call of it does the same."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.returned: Any = None
        self.error = error

    def __call__(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.returned


async def _call(running: CurrentRun, handler: TaskHandler, tasks: Batch) -> Answer:
    """Call the handler, in an asyncio task of its own: what cancels that one, cancels none of the steps around it."""
    if running.interrupted is not None:
        return Answer(running.interrupted)
    answer = Answer(asyncio.CancelledError())  # stays if it is cancelled before it begins
    running.call = asyncio.create_task(_note(answer, handler, tasks), name=f"handler of {tasks[0]}")
    try:
        await asyncio.wait([running.call])
    finally:
        running.call = None
    if isinstance(answer.error, asyncio.CancelledError) and running.interrupted is not None:
        answer.error = running.interrupted
    return answer


async def _note(answer: Answer, handler: TaskHandler, tasks: Batch) -> None:
    """Await the handler and note its answer, which asyncio would drop if the handler has cancelled itself."""
    try:
        answer.returned = await project.astep(tasks[0], middleware.acall, handler, tasks)
        answer.error = None
    except BaseException as error:  # CancelledError, SystemExit and GeneratorExit, too
        answer.error = error


async def _apart(is_slow: bool, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return await sync_to_async(function)(*args, **kwargs) if is_slow else function(*args, **kwargs)
