"""A run of an async handler: the steps of ``run.py``, of which the call of the handler is awaited."""

from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from django_delayed_tasks import signals
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.executor.running.current_run import Batch
from django_delayed_tasks.executor.running.deciding import GivenBack
from django_delayed_tasks.executor.running.run import RunEnd, begin, end, interrupted
from django_delayed_tasks.handlers import TaskHandler

P = ParamSpec("P")
R = TypeVar("R")


async def arun(
    tasks: Batch,
    handler: TaskHandler,
    clock: DatabaseClock,
    max_rescues: int | None,
    call: Callable[[TaskHandler, Batch], Awaitable[Any]],
) -> RunEnd:
    """Do as :func:`run` with an async handler, which ``call`` calls.

    Receivers of signals, and what follows a failure, may query the database. They are called in the thread that does
    so for coroutines.
    """
    now = clock.now()
    try:
        start = await _apart(bool(signals.run_started.receivers), begin, tasks, handler, clock, now)
        answer = await _answer(call(handler, start.tasks)) if start.tasks else Answer(None)
        has_failed = answer.error is not None and not isinstance(answer.error, GivenBack)
        is_slow = has_failed or bool(signals.run_finished.receivers)
        return await _apart(is_slow, end, start, handler, clock, max_rescues, answer)
    except GeneratorExit:  # the loop is closed, and the run was left behind
        raise
    except BaseException as error:
        return await _apart(True, interrupted, tasks, handler, clock, now, error, max_rescues)


class Answer:
    """What an async handler has returned or raised; a call of it does the same."""

    def __init__(self, returned: Any, error: BaseException | None = None) -> None:
        self._returned = returned
        self.error = error

    def __call__(self) -> Any:
        if self.error is not None:
            raise self.error
        return self._returned


async def _answer(call: Awaitable[Any]) -> Answer:
    try:
        return Answer(await call)
    except GeneratorExit:
        raise
    except BaseException as error:  # CancelledError and SystemExit, too
        return Answer(None, error)


async def _apart(is_slow: bool, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return await sync_to_async(function)(*args, **kwargs) if is_slow else function(*args, **kwargs)
