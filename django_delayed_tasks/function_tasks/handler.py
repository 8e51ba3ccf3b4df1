"""The handler of a function's tasks: what the executor asks of it; ``running.py`` makes the call."""

import sys
from datetime import timedelta
from functools import cache
from typing import Any

from asgiref.sync import iscoroutinefunction

from django_delayed_tasks.conf import as_seconds
from django_delayed_tasks.exceptions import ClaimLost, InvalidHandler
from django_delayed_tasks.function_tasks import data
from django_delayed_tasks.function_tasks.options import NAMES, FunctionOptions, options_of
from django_delayed_tasks.handlers import TaskHandler, find, get_task_handlers, register_task_handler
from django_delayed_tasks.handlers.functions import code_of_function, load_function
from django_delayed_tasks.handlers.registry import withdraw
from django_delayed_tasks.outcomes import Done
from django_delayed_tasks.states import BizNum, KeepHistory, RunOutcome


@cache
def _running() -> Any:
    """Return the module that runs functions; a process that only enqueues does not load it."""
    from django_delayed_tasks.function_tasks import running

    return running


class FunctionHandler(TaskHandler):
    """Runs the tasks of one function.

    Attributes:
        task: the function as its decorator made it; its queue and priority apply to recurring runs.
        options: what the store does for it.
    """

    keep_data = True

    def __init__(self, task: Any, options: FunctionOptions) -> None:
        self.task = task
        self.options = options
        self.biz_code = code_of_function(task.module_path)
        self.queue = task.queue_name
        self.priority = int(task.priority)  # the framework accepts any whole number, such as 5.0
        for name in TaskHandler.__annotations__.keys() & NAMES:
            setattr(self, name, getattr(options, name))
        self.keep_history = options.result_retention or KeepHistory.ALL

    def handle(self, task: Any) -> Done | None:
        """Call the function; its return value is the result."""
        run = _running().run_unheard if self.atomic else _running().run
        value = run(self.task, task)
        return None if value is None else Done(result=value)

    def _before_transaction(self, task: Any) -> None:
        """Send ``task_started``, once for an attempt that may be tried several times."""
        _running().announce_start(self.task, task)

    def _after_commit(self, task: Any, settlement: Any) -> None:
        """Send ``task_finished`` for a success."""
        if settlement.outcome is RunOutcome.DONE:
            _running().announce_success(self.task, task, settlement)

    def backoff_after(self, task: Any, exception: BaseException) -> timedelta | None:
        """Return the wait by the option ``backoff``."""
        if self.options.backoff is None:
            return self.backoff(task.attempts)
        delay = self.options.backoff(exception, _running().failed_result(self.task, task, exception))
        return None if delay is None else timedelta(seconds=as_seconds(delay))

    def on_failed(self, task: Any, error: str, exception: BaseException | None = None) -> None:
        """Send ``task_finished``, inside an ``except`` as the framework's receivers expect."""
        ended = exception or ClaimLost(error)
        frames = ended.__traceback__
        try:
            raise ended
        except BaseException:
            ended.__traceback__ = frames  # without this method, which is not where it was raised
            _running().announce_failure(self.task, task, ended, error)


class CoroutineFunctionHandler(FunctionHandler):
    """Runs the tasks of a coroutine function, on the executor's event loop."""

    async def handle(self, task: Any) -> Done | None:  # type: ignore[override]
        """Await the function; its return value is the result."""
        value = await _running().arun(self.task, task)
        return None if value is None else Done(result=value)


class KeyedFunctionHandler(FunctionHandler):
    """Runs the tasks of a function whose limits are counted by a key."""

    def concurrency_key(self, task: Any) -> BizNum | None:
        """Return the key of the arguments by the option ``concurrency_key``."""
        given = data.read(task.biz_ext, self.task.module_path)
        key: BizNum | None = self.options.concurrency_key(*given.args, **given.kwargs)  # type: ignore[misc]
        return key


def registered(task: Any, options: dict[str, Any]) -> FunctionHandler:
    """Return the handler of a task's function, which the first task of the function has registered.

    Raises:
        ValueError, InvalidHandler: the options are not valid.
    """
    known = find(code_of_function(task.module_path))
    if isinstance(known, FunctionHandler) and known.task.func is task.func:
        return known
    if isinstance(known, FunctionHandler):
        withdraw(known)  # its module was imported again
    task = _as_decorated(task)
    chosen = options_of(task, options)
    handler = _class_for(task.func, chosen)(task, chosen)
    try:
        register_task_handler(handler)
    except InvalidHandler:
        known = find(handler.biz_code)
        if isinstance(known, FunctionHandler) and known.task.func is task.func:
            return known  # another thread was quicker
        raise
    return handler


def _class_for(function: Any, options: FunctionOptions) -> type[FunctionHandler]:
    """Return a class that is named as the function is, as messages name handlers by their classes."""
    keyed = [KeyedFunctionHandler] if options.concurrency_key else []
    awaited = [CoroutineFunctionHandler] if iscoroutinefunction(function) else []
    bases: tuple[type[FunctionHandler], ...] = (*keyed, *awaited) or (FunctionHandler,)
    names = {"__module__": function.__module__, "__qualname__": function.__qualname__, "__doc__": function.__doc__}
    return type(function.__name__, bases, names)


def _as_decorated(task: Any) -> Any:
    """Return the task as its decorator made it, without what ``using`` changed; itself while it is being made."""
    named: Any = sys.modules.get(task.func.__module__)
    for name in task.func.__qualname__.split("."):
        named = getattr(named, name, None)
    return named if getattr(named, "func", None) is task.func else task


def handler_of(biz_code: str, enqueued: data.EnqueuedCall) -> FunctionHandler | None:
    """Return the handler of a function, importing its module; None if there is no such function here."""
    known = find(biz_code)
    if known is None:
        load_function(biz_code, enqueued.function, enqueued.using.get("backend"))
        known = find(biz_code)
    return known if isinstance(known, FunctionHandler) else None


def forget_all() -> None:
    """Withdraw the handlers of all functions: the setting ``TASKS``, which has options of theirs, has changed."""
    for handler in get_task_handlers().values():
        if isinstance(handler, FunctionHandler):
            withdraw(handler)
