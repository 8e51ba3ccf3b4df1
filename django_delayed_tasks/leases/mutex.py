"""A mutex with one holder in the whole cluster, also for code that is not a task."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from inspect import Parameter, Signature
from threading import Lock, get_ident
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload

from django.db import Error

from django_delayed_tasks import clock
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import ResourceUnavailable
from django_delayed_tasks.leases import validation
from django_delayed_tasks.leases.acquiring import Contender, Request
from django_delayed_tasks.leases.asynchronous import IsCancelled, in_thread, never
from django_delayed_tasks.leases.lease import MutexLease, Owner
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.resources import line, resources
from django_delayed_tasks.store.resources.resources import WantedResource

P = ParamSpec("P")
R = TypeVar("R")
OnStandby = Callable[[str, int, datetime], object]
"""Called with the holder's host, its process id, and the moment of its last heartbeat."""

LEASE: Final = "lease"
"""The name of the parameter."""


class LeasedFunction(Generic[R]):
    """A function, and the place of its parameter ``lease``."""

    signature: Signature | None = None
    """The function's signature as its callers see it, without ``lease``; None if the function has no such parameter."""

    def __init__(self, function: Callable[..., R]) -> None:
        """Look for the parameter ``lease``.

        Raises:
            TypeError: a call of the function returns before its work is done.
        """
        _refuse_unfinished(function)
        self._function = function
        self._place: int | None = None
        """The number of positional arguments before the lease; None if it is passed by its name."""
        try:
            found = inspect.signature(function)
        except (TypeError, ValueError):  # a function that is not written in Python
            return
        parameters = list(found.parameters.values())
        for place, parameter in enumerate(parameters):
            if parameter.name == LEASE and parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
                self._place = None if parameter.kind is Parameter.KEYWORD_ONLY else place
                self.signature = found.replace(parameters=[other for other in parameters if other is not parameter])

    def call(self, lease: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """Call the function with the caller's arguments, and the lease if it takes one."""
        if self.signature is None:
            return self._function(*args, **kwargs)
        if self._place is None or len(args) < self._place:
            return self._function(*args, lease=lease, **kwargs)
        return self._function(*args[: self._place], lease, *args[self._place :], **kwargs)


_ASYNC: Final = "use `async with mutex(...)` inside it"
_UNFINISHED: Final = (
    (inspect.iscoroutinefunction, "an async function", _ASYNC),
    (inspect.isasyncgenfunction, "an async generator function", _ASYNC),
    (inspect.isgeneratorfunction, "a generator function", "use `with mutex(...)` inside it"),
)


def _refuse_unfinished(function: Callable[..., Any]) -> None:
    for is_one, kind, instead in _UNFINISHED:
        if is_one(function) or is_one(getattr(function, "__call__", None)):  # noqa: B004
            name = getattr(function, "__qualname__", function)
            raise TypeError(
                f"{name} is {kind}: a call returns at once, and the mutex would be released before the work is"
                f" done; {instead}"
            )


def mutex(
    name: str,
    ttl: float | timedelta = 10,
    wait: float | timedelta | None = 0,
    state: dict[str, Any] | None = None,
    *,
    at_least: float | timedelta = 0,
    at_most: float | timedelta | None = None,
    on_standby: OnStandby | None = None,
    using: str | None = None,
) -> "Mutex":
    """Return the mutex with that name: a context manager that yields a :class:`MutexLease`, and a decorator.

    The context manager is for ``with`` and for ``async with``.

    The database is not queried before the block is entered or the decorated function is called.

    Args:
        name: 1 to 150 characters.
        ttl: seconds or a timedelta, at least 0.1 s; a holder that does not renew the mutex for this long loses it.
        wait: seconds or a timedelta to wait for the mutex; None to wait without limit.
        state: the value of ``lease.state`` if no holder has left one; a dict that is JSON.
        at_least: seconds or a timedelta for which no other process gets the mutex, by the database's clock, counted
            from its acquisition: even if the block ends earlier, fails, or its process dies.
        at_most: seconds or a timedelta for which the mutex is renewed, counted from its acquisition by this host's
            monotonic clock: then it counts as lost, and is free at most ``ttl`` later. None for as long as the block
            runs.
        on_standby: called with the holder's host, pid and last heartbeat if another process holds the mutex, and every
            five seconds while waiting. If the mutex is free but reserved for earlier waiters, it is called with the
            values of the last holder.
        using: alias of the database; None for ``DELAYED_TASKS["DATABASE"]``.

    Raises:
        InvalidTask: a value is not accepted.
    """
    checked = validation.valid_name(name), validation.valid_ttl(ttl), validation.valid_wait(wait)
    validation.valid_state(state or {})
    validation.valid_callback("on_standby", on_standby)
    least = validation.valid_at_least(at_least)
    return Mutex(*checked, state or {}, on_standby, using, least, validation.valid_at_most(at_most, least))


@dataclass(eq=False)
class Mutex:
    """See :func:`mutex`."""

    name: str
    ttl: timedelta
    wait: float | None
    state: dict[str, Any]
    on_standby: OnStandby | None
    using: str | None
    at_least: timedelta
    at_most: float
    _lease: MutexLease | None = field(default=None, init=False)
    _in_use: Lock = field(default_factory=Lock, init=False, repr=False)

    def __enter__(self) -> MutexLease:
        """Acquire the mutex.

        Raises:
            ResourceUnavailable: another process or thread held the mutex during the whole wait; or this thread holds
                it, and would wait for itself.
            TaskException: a transaction is open.
            RuntimeError: this object is in use already.
        """
        with self._becoming_used():
            self._lease = Acquisition(self, get_ident()).acquire()
        return self._lease

    async def __aenter__(self) -> MutexLease:
        """Acquire the mutex, as :meth:`__enter__` does, in a thread.

        If the caller is cancelled meanwhile, the thread stops waiting, or gives back what it has got.
        """
        with self._becoming_used():
            acquisition = Acquisition(self, asyncio.current_task())
            self._lease = await in_thread(acquisition.acquire, MutexLease.undo)
        return self._lease

    @contextmanager
    def _becoming_used(self) -> Iterator[None]:
        if not self._in_use.acquire(blocking=False):
            raise RuntimeError(f"this object already holds the mutex {self.name!r} or waits for it; create another one")
        try:
            yield
        except BaseException:
            self._in_use.release()
            raise

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Save the state, but not after an exception, and give the mutex back; a lost mutex is logged.

        It is not free before the end of ``at_least``.
        """
        self._leave().hand_over(kind is not None)

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Release the mutex in a thread, which does so even if the caller is cancelled meanwhile."""
        lease = self._leave()
        await in_thread(lambda _: lease.hand_over(kind is not None))

    def _leave(self) -> MutexLease:
        lease, self._lease = self._lease, None
        assert lease is not None
        self._in_use.release()
        return lease

    @overload
    def __call__(self, function: Callable[Concatenate[MutexLease, P], R]) -> Callable[P, R | None]: ...

    @overload
    def __call__(self, function: Callable[P, R]) -> Callable[P, R | None]: ...

    def __call__(self, function: Callable[..., R]) -> Callable[..., R | None]:
        """Wrap a function so that each call holds the mutex.

        A function with a parameter ``lease`` gets the :class:`MutexLease` of the call; callers do not pass it.
        If the mutex is not available, a call returns None if there is an ``on_standby``, which was called with the
        holder if there is one; otherwise it raises ResourceUnavailable.

        Raises:
            TypeError: a call of the function would return before its work is done: it is async, or a generator.
        """
        decorated = LeasedFunction(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> R | None:
            own = replace(self)
            try:
                lease = own.__enter__()
            except ResourceUnavailable:
                if self.on_standby is None:
                    raise
                return None
            with ExitStack() as stack:
                stack.push(own)
                return decorated.call(lease, args, kwargs)

        if decorated.signature is not None:
            call.__dict__["__signature__"] = decorated.signature
        return call


class Acquisition:
    """One attempt to acquire a mutex."""

    def __init__(self, mutex: Mutex, owner: Owner) -> None:
        self._mutex = mutex
        self._owner = owner
        self._alias = mutex.using or settings.DATABASE
        self._wanted = WantedResource(resources.MUTEXES, mutex.name)
        self._has_called_on_standby = False
        self._own: BaseException | None = None
        """The error of ``on_standby``, or of a caller that would wait for itself: it is passed on unchanged."""

    def acquire(self, is_cancelled: IsCancelled = never) -> MutexLease:
        """Acquire and return the lease; see :meth:`Mutex.__enter__`."""
        mutex = self._mutex
        request = Request(self._alias, self._wanted, mutex.ttl, mutex.wait, mutex.at_least, is_cancelled)
        try:
            grant, found, begun = Contender(request, self._when_busy).acquire()
        except ResourceUnavailable as error:
            if error is self._own:
                raise
            raise self._explained(error) from None
        state = found.state if isinstance(found.state, dict) else deepcopy(mutex.state)
        found = found._replace(state=state)
        limits = mutex.at_least, mutex.at_most
        return MutexLease(self._alias, grant, found, mutex.ttl, begun, *limits, self._owner)

    def _when_busy(self) -> bool:
        holder = line.holder_of(self._alias, self._wanted)
        if holder is None:  # the mutex did not exist, or was given back in the meantime
            self._make_sure_it_exists()
            return True
        self._call_on_standby(holder)
        if self._mutex.wait != 0 and self._is_held_here(holder.holder):
            what = "thread" if isinstance(self._owner, int) else "asyncio task"
            self._own = ResourceUnavailable(
                f"mutex {self._mutex.name!r} is held by this {what}, which would wait for itself"
            )
            raise self._own
        return False

    def _is_held_here(self, holder: str) -> bool:
        return any(
            isinstance(lease, MutexLease) and lease.grant.holder == holder and lease.owner == self._owner
            for lease in renewer.leases()
        )

    def _make_sure_it_exists(self) -> None:
        if not line.exists(self._alias, self._wanted):
            resources.ensure(self._alias, self._wanted)

    def _call_on_standby(self, holder: Resource) -> None:
        self._has_called_on_standby = True
        if self._mutex.on_standby is None:
            return
        try:
            self._mutex.on_standby(holder.host, holder.pid or 0, holder.renewed_at or clock.EPOCH)
        except BaseException as error:
            self._own = error
            raise

    def _explained(self, error: ResourceUnavailable) -> ResourceUnavailable:
        """Add what is known of the (last) holder to the error; call ``on_standby`` if it has not been called yet."""
        try:
            holder = line.holder_of(self._alias, self._wanted)
            last = holder or line.row_of(self._alias, self._wanted)
        except Error:
            return error
        if last and not holder and not last.enabled:
            return ResourceUnavailable(f"{error}: it is disabled")
        if last is None or last.acquired_at is None:
            return error
        if not self._has_called_on_standby:
            self._call_on_standby(last)
        does = "has it" if holder else "had it last"
        if holder and holder.holder == resources.KEPT:
            does = f"had it, and keeps it for its at_least, until {holder.busy_before}"
        return ResourceUnavailable(f"{error}: {last.host}, process {last.pid}, {does}")
