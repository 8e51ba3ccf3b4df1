"""A mutex: one holder in the whole cluster, for what is not a task too."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from django_delayed_tasks import clock
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask, LeaseLost, ResourceUnavailable
from django_delayed_tasks.leases import validation
from django_delayed_tasks.leases.acquiring import Contender, Request
from django_delayed_tasks.leases.lease import Lease
from django_delayed_tasks.store import resources, waiting
from django_delayed_tasks.store.resources import Details, Grant, Wanted
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
    on_standby: OnStandby | None = None,
    using: str | None = None,
) -> "Mutex":
    """The mutex of that name: a context manager that gives a :class:`MutexLease`, and a decorator.

    Nothing is asked of the database before it is entered, or the decorated function called.

    Args:
        name: 1 to 150 characters.
        ttl: seconds or a timedelta, at least 0.1 s. A holder that does not renew it loses it after so long.
        wait: seconds or a timedelta to wait for it; None for ever.
        state: what ``lease.state`` is when nobody has left one; a dict that is JSON.
        on_standby: called with the holder's host, pid and last heartbeat when somebody else holds it, and every five
            seconds while waiting.
        using: alias of the database; None for ``DELAYED_TASKS["DATABASE"]``.

    Raises:
        InvalidTask: a value that cannot be accepted.
    """
    checked = validation.valid_name(name), validation.valid_ttl(ttl), validation.valid_wait(wait)
    valid_state(state or {})
    return Mutex(*checked, state or {}, on_standby, using)


def valid_state(state: Any) -> str:
    """The state as JSON text."""
    if not isinstance(state, dict):
        raise InvalidTask("state", state, "must be a dict")
    return valid_json(state, settings.MAX_BIZ_EXT_BYTES, "state") or "{}"


class MutexLease(Lease):
    """The mutex, held. ``state`` is what the last holder left; what it is at the end is left to the next."""

    def __init__(self, alias: str, grant: Grant, details: Details, ttl: timedelta, begun: float) -> None:
        super().__init__(alias, resources.MUTEXES, f"mutex {details.name!r}", grant, details, ttl, begun)
        self.state: dict[str, Any] = details.state
        self._saved = valid_state(details.state)

    def save_state(self) -> None:
        """Leave ``state`` to the next holder already now, whatever becomes of this one.

        Raises:
            InvalidTask: it is no dict, or no JSON.
            LeaseLost: the mutex is not held any more; nothing was written.
        """
        text = valid_state(self.state)
        if text == self._saved:
            return
        if not resources.save_state(self.alias, self.grant, text):
            self.lose()
            raise LeaseLost(f"mutex {self.name!r} is not held any more: its state was not saved")
        self._saved = text


@dataclass(eq=False)
class Mutex:
    """See :func:`mutex`."""

    name: str
    ttl: timedelta
    wait: float | None
    state: dict[str, Any]
    on_standby: OnStandby | None
    using: str | None
    _lease: MutexLease | None = field(default=None, init=False)

    def __enter__(self) -> MutexLease:
        """Acquire it.

        Raises:
            ResourceUnavailable: somebody else held it for as long as one was to wait.
            TaskException: a transaction is open.
        """
        if self._lease is not None:
            raise RuntimeError(f"this object holds the mutex {self.name!r} already; make another one")
        self._lease = lease = Acquisition(self).acquire()
        return lease

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the state and give the mutex back, whatever happened; that it was lost is in the log."""
        lease, self._lease = self._lease, None
        assert lease is not None
        try:
            lease.save_state()
        except LeaseLost:
            pass
        finally:
            lease.release()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R | None]:
        """Each call holds the mutex. If it cannot be had: None when there is ``on_standby``, which was told, else
        ResourceUnavailable.
        """

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            own = Mutex(self.name, self.ttl, self.wait, self.state, self.on_standby, self.using)
            try:
                own.__enter__()
            except ResourceUnavailable:
                if self.on_standby is None:
                    raise
                return None
            try:
                return function(*args, **kwargs)
            finally:
                own.__exit__(None, None, None)

        return call


class Acquisition:
    """One attempt to acquire a mutex."""

    def __init__(self, mutex: Mutex) -> None:
        self._mutex = mutex
        self._alias = mutex.using or settings.DATABASE
        self._wanted = Wanted(resources.MUTEXES, mutex.name)

    def acquire(self) -> MutexLease:
        """The lease; see :meth:`Mutex.__enter__`."""
        request = Request(self._alias, self._wanted, self._mutex.ttl, self._mutex.wait)
        while True:
            grant, begun = Contender(request, self._when_busy).acquire()
            if found := resources.details(self._alias, grant):  # else it was taken away again at once
                state = found.state if isinstance(found.state, dict) else dict(self._mutex.state)
                return MutexLease(self._alias, grant, found._replace(state=state), request.ttl, begun)

    def _when_busy(self) -> bool:
        holder = waiting.holder_of(self._alias, self._wanted)
        if holder is None:
            return self._make_sure_it_exists()
        if self._mutex.on_standby:
            self._mutex.on_standby(holder.host, holder.pid or 0, holder.renewed_at or clock.EPOCH)
        return False

    def _make_sure_it_exists(self) -> bool:
        if waiting.exists(self._alias, self._wanted):
            return False
        resources.ensure(self._alias, self._wanted)
        return True
