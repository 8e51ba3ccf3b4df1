"""Middlewares: what ``DELAYED_TASKS["MIDDLEWARE"]`` puts around each call of a handler, as Django's do around a view.

A middleware is a factory. It gets the next call, ``call(run)``, and returns its own. Without middlewares the handler is
called directly.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast

from asgiref.sync import async_to_sync, iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.core.exceptions import MiddlewareNotUsed
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidSetting
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.handlers.base import TaskHandler
from django_delayed_tasks.support import forks
from django_delayed_tasks.support.forks import end_if_forked, is_success

if TYPE_CHECKING:
    from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask


P = ParamSpec("P")
R = TypeVar("R")


def for_coroutines(call: Callable[P, R]) -> Callable[P, R]:
    """Return the call, which raises RuntimeError in place of StopIteration, as a coroutine does.

    No asyncio future can hold a StopIteration: on Python 3.11 the coroutine that awaits it would wait forever.
    """

    @wraps(call)
    def passable(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except StopIteration as error:
            raise RuntimeError("a call in a thread raised StopIteration") from error

    return passable


class Run(NamedTuple):
    """One call of a handler: for most handlers with a single task, with ``handle_batch`` with one or more."""

    handler: TaskHandler
    tasks: "Sequence[ClaimedTask]"

    @property
    def task(self) -> "ClaimedTask":
        """The task, or the first one of a batch."""
        return self.tasks[0]


Call = Callable[[Run], Any]
AsyncCall = Callable[[Run], Awaitable[Any]]
Middleware = Callable[[Any], Any]
PLAIN = (
    "it is for plain handlers only, and there are async ones; "
    "let it be for both, as with Django's sync_and_async_middleware, and declare async_capable"
)


@cache
def caller() -> "Callable[[TaskHandler, Sequence[ClaimedTask]], Any]":
    """Return the function that calls a handler for tasks inside of the middlewares, and returns what they return."""
    chain = _chain()
    return _call if chain is _handle else lambda handler, tasks: chain(Run(handler, tasks))


async def acall(handler: TaskHandler, tasks: "Sequence[ClaimedTask]") -> Any:
    """Await an async handler, inside of the middlewares; return what they return."""
    return await _achain()(Run(handler, tasks))


def _handle(run: Run) -> Any:
    return _call(run.handler, run.tasks)


def _call(handler: TaskHandler, tasks: "Sequence[ClaimedTask]") -> Any:
    """Call the handler; a child that it has forked ends where it returns."""
    pid = forks.pid
    try:
        returned = handler.handle_batch(list(tasks)) if handler.is_batched else handler.handle(tasks[0])
    except BaseException as error:
        end_if_forked(pid, error)
        if not is_success(error):
            raise
        return None
    if forks.pid != pid:
        end_if_forked(pid)
    return returned


async def _ahandle(run: Run) -> Any:
    try:
        return await _call(run.handler, run.tasks)
    except SystemExit as error:
        if not is_success(error):
            raise
        return None


def load() -> None:
    """Build the middlewares, around async handlers if there are any.

    Raises:
        InvalidSetting: one cannot be imported, or its factory raised, or it is plain, and there are async handlers.
    """
    _chain()
    if registry.async_codes:
        _achain()


@cache
def _chain() -> Call:
    return cast(Call, _around(_handle, is_async=False))


@cache
def _achain() -> AsyncCall:
    return cast(AsyncCall, _around(_ahandle, is_async=True))


def _around(handle: Any, is_async: bool) -> Any:
    """Return the call of the outermost middleware; the first in the setting is the outermost."""
    for path in reversed(settings.MIDDLEWARE):
        try:
            handle = _wrapped(import_string(path), handle, is_async)
        except MiddlewareNotUsed:
            continue
        except Exception as error:
            raise InvalidSetting(f"DELAYED_TASKS['MIDDLEWARE']: {path}: {type(error).__name__}: {error}") from error
    return handle


def _wrapped(middleware: Middleware, handle: Any, is_async: bool) -> Any:
    """Return the middleware's call around ``handle``; an async one is adapted to plain handlers, as Django does it.

    The attributes ``sync_capable`` and ``async_capable``, which Django's decorators ``sync_and_async_middleware`` and
    ``async_only_middleware`` set, say which kinds the middleware can be.
    """
    if is_async and not getattr(middleware, "async_capable", False):
        raise TypeError(PLAIN)
    if not is_async and not getattr(middleware, "sync_capable", True):
        return async_to_sync(_made(middleware, _as_coroutine(handle), True))
    return _made(middleware, handle, is_async)


def _made(middleware: Middleware, handle: Any, is_async: bool) -> Any:
    made = middleware(handle)
    if not callable(made):
        raise TypeError(f"its factory returned {made!r}, which cannot be called")
    if iscoroutinefunction(made) != is_async:
        raise TypeError(f"its factory returned {'a plain' if is_async else 'an async'} call for the other kind")
    return made


def _as_coroutine(handle: Call) -> AsyncCall:
    passable = for_coroutines(handle)

    async def call(run: Run) -> Any:
        return await sync_to_async(passable)(run)

    return markcoroutinefunction(call)


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "DELAYED_TASKS":
        _rebuild()


def _rebuild() -> None:
    """Build the middlewares again when they are needed next."""
    _chain.cache_clear()
    _achain.cache_clear()
    caller.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_delayed_tasks.handlers.middleware")
forks.forget_in_child(_rebuild)
