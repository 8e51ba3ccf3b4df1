"""A mutex with one holder in the whole cluster, also for code that is not a task."""

import functools
import json
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock, get_ident
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from django.db import Error

from django_delayed_tasks import clock
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask, LeaseLost, ResourceUnavailable
from django_delayed_tasks.leases import validation
from django_delayed_tasks.leases.acquiring import Request, acquire
from django_delayed_tasks.leases.decorated import Decorated
from django_delayed_tasks.leases.lease import Lease
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.resources import line, resources
from django_delayed_tasks.store.resources.resources import Details, Grant, Wanted
from django_delayed_tasks.store.validation import valid_json

P = ParamSpec("P")
R = TypeVar("R")
OnStandby = Callable[[str, int, datetime], object]
"""Called with the holder's host, its process id, and the moment of its last heartbeat."""


def mutex(
    name: str,
    ttl: float | timedelta = 10,
    wait: float | timedelta | None = 0,
    state: dict[str, Any] | None = None,
    *,
    at_least: float | timedelta = 0,
    on_standby: OnStandby | None = None,
    using: str | None = None,
) -> "Mutex":
    """Return the mutex with that name: a context manager that yields a :class:`MutexLease`, and a decorator.

    The database is not queried before the block is entered or the decorated function is called.

    Args:
        name: 1 to 150 characters.
        ttl: seconds or a timedelta, at least 0.1 s; a holder that does not renew the mutex for this long loses it.
        wait: seconds or a timedelta to wait for the mutex; None to wait without limit.
        state: the value of ``lease.state`` if no holder has left one; a dict that is JSON.
        at_least: seconds or a timedelta for which no other process gets the mutex, by the database's clock, counted
            from its acquisition: even if the block ends earlier, fails, or its process dies.
        on_standby: called with the holder's host, pid and last heartbeat if another process holds the mutex, and every
            five seconds while waiting. If the mutex is free but reserved for earlier waiters, these are those of the
            last holder.
        using: alias of the database; None for ``DELAYED_TASKS["DATABASE"]``.

    Raises:
        InvalidTask: a value is not accepted.
    """
    checked = validation.valid_name(name), validation.valid_ttl(ttl), validation.valid_wait(wait)
    valid_state(state or {})
    return Mutex(*checked, state or {}, on_standby, using, validation.valid_at_least(at_least))


def valid_state(state: Any) -> str:
    """Return the state as JSON text."""
    if not isinstance(state, dict):
        raise InvalidTask("state", state, "must be a dict")
    return valid_json(state, settings.MAX_BIZ_EXT_BYTES, "state") or "{}"


class MutexLease(Lease):
    """A held mutex. ``state`` is a dict left by the last holder; its value at the end is left to the next one."""

    def __init__(
        self, alias: str, grant: Grant, details: Details, ttl: timedelta, begun: float, at_least: timedelta
    ) -> None:
        self.kept_until = details.acquired_at + at_least if at_least else None
        self.state: dict[str, Any] = details.state
        self._saved = json.dumps(details.state)  # may exceed this process's limit: another's may be higher
        super().__init__(alias, resources.MUTEXES, f"mutex {details.name!r}", grant, details, ttl, begun)

    def save_state(self) -> None:
        """Save ``state`` for the next holder now, in case this one does not get to the end.

        Raises:
            InvalidTask: ``state`` is not a dict, or is not JSON.
            LeaseLost: the mutex is no longer held; nothing was written.
        """
        if _is_same(self.state, self._saved):
            return
        text = valid_state(self.state)
        if self._is_given_up or not self._ask(resources.save_state, text):
            self.lose()
            raise LeaseLost(f"mutex {self.name!r} is no longer held: its state was not saved")
        self._saved = json.dumps(self.state)


def _is_same(state: Any, saved: str) -> bool:
    with suppress(TypeError, ValueError, RecursionError):
        return json.dumps(state) == saved
    return False  # saving the state reports what is wrong with it


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
        if not self._in_use.acquire(blocking=False):
            raise RuntimeError(f"this object already holds the mutex {self.name!r} or waits for it; create another one")
        try:
            self._lease = Acquisition(self).acquire()
        except BaseException:
            self._in_use.release()
            raise
        return self._lease

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Save the state and give the mutex back, also after an exception; a lost mutex is logged.

        It is not free before the end of ``at_least``.
        """
        lease, self._lease = self._lease, None
        assert lease is not None
        self._in_use.release()
        try:
            lease.save_state()
        except LeaseLost:
            pass
        finally:
            lease.release()

    @overload
    def __call__(self, function: Callable[Concatenate[MutexLease, P], R]) -> Callable[P, R | None]: ...

    @overload
    def __call__(self, function: Callable[P, R]) -> Callable[P, R | None]: ...

    def __call__(self, function: Callable[..., R]) -> Callable[..., R | None]:
        """Wrap a function so that each call holds the mutex.

        A function with a parameter ``lease`` gets the :class:`MutexLease` of the call; callers do not pass it.
        If the mutex is not available, a call returns None if there is an ``on_standby``, which was called with the
        holder if there is one; otherwise it raises ResourceUnavailable.
        """

        decorated = Decorated(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> R | None:
            own = replace(self)
            try:
                lease = own.__enter__()
            except ResourceUnavailable:
                if self.on_standby is None:
                    raise
                return None
            try:
                return decorated.call(lease, args, kwargs)
            finally:
                own.__exit__(None, None, None)

        if decorated.signature is not None:
            call.__dict__["__signature__"] = decorated.signature
        return call


class Acquisition:
    """One attempt to acquire a mutex."""

    def __init__(self, mutex: Mutex) -> None:
        self._mutex = mutex
        self._alias = mutex.using or settings.DATABASE
        self._wanted = Wanted(resources.MUTEXES, mutex.name)
        self._has_told = False
        self._own: BaseException | None = None
        """The error that was not raised although the mutex was not available."""

    def acquire(self) -> MutexLease:
        """Acquire and return the lease; see :meth:`Mutex.__enter__`."""
        mutex = self._mutex
        request = Request(self._alias, self._wanted, mutex.ttl, mutex.wait, mutex.at_least)
        try:
            grant, found, begun = acquire(request, self._when_busy)
        except ResourceUnavailable as error:
            if error is self._own:
                raise
            raise self._explained(error) from None
        state = found.state if isinstance(found.state, dict) else deepcopy(mutex.state)
        return MutexLease(self._alias, grant, found._replace(state=state), mutex.ttl, begun, mutex.at_least)

    def _when_busy(self) -> bool:
        holder = line.holder_of(self._alias, self._wanted)
        if holder is None:  # the mutex did not exist, or was given back in the meantime
            self._make_sure_it_exists()
            return True
        self._tell(holder)
        if self._mutex.wait != 0 and _is_held_by_this_thread(holder.holder):
            self._own = ResourceUnavailable(
                f"mutex {self._mutex.name!r} is held by this thread, which would wait for itself"
            )
            raise self._own
        return False

    def _make_sure_it_exists(self) -> None:
        if not line.exists(self._alias, self._wanted):
            resources.ensure(self._alias, self._wanted)

    def _tell(self, holder: Resource) -> None:
        self._has_told = True
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
        if not self._has_told:
            self._tell(last)
        does = "has it" if holder else "had it last"
        if holder and holder.holder == resources.KEPT:
            does = f"had it, and keeps it for its at_least, until {holder.busy_before}"
        return ResourceUnavailable(f"{error}: {last.host}, process {last.pid}, {does}")


def _is_held_by_this_thread(holder: str) -> bool:
    return any(
        isinstance(lease, Lease) and lease.grant.holder == holder and lease.thread == get_ident()
        for lease in renewer.leases()
    )
