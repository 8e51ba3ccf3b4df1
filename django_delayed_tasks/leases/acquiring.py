"""Acquiring a resource that others want too: contenders form a wait queue in the database and poll it."""

import random
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import Error, connections

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import ResourceUnavailable, TaskException
from django_delayed_tasks.leases.asynchronous import Cancelled, IsCancelled, never
from django_delayed_tasks.leases.waiting import GRACE, MAX_PAUSE, Pauses, reconnecting, stand_again, standing
from django_delayed_tasks.store.resources import line, resources
from django_delayed_tasks.store.resources.line import LAST, View
from django_delayed_tasks.store.resources.resources import Details, Grant, WantedResource
from django_delayed_tasks.store.sql.kept_connections import is_current, opened
from django_delayed_tasks.store.sql.transactions import catch_up, in_transaction, is_in_test_case, is_transient
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

TRIES: Final = 5
"""The number of times that a contender outside the wait queue tries another free resource when one was taken first."""
TOLD_AGAIN: Final = 5.0
"""Seconds between two queries for the present holder."""
Won = tuple[Grant, float]
"""A grant, and the monotonic moment before it was requested."""


@dataclass(frozen=True, slots=True)
class Request:
    """The resource wanted, how long a lease lasts, and how many seconds to wait for one (None: without limit).

    A lease lasts ``ttl`` without renewal, but at least ``at_least``. The wait ends when ``is_cancelled()`` is true.
    """

    alias: str
    wanted: WantedResource
    ttl: timedelta
    wait: float | None
    at_least: timedelta = timedelta(0)
    is_cancelled: IsCancelled = never


class Contender:
    """A caller that wants a resource."""

    def __init__(self, request: Request, when_busy: Callable[[], bool]) -> None:
        """Store the request.

        ``when_busy()`` is called when no resource is free, and again while waiting; if it returns True, the contender
        looks again at once.
        """
        self._request = request
        self._when_busy = when_busy
        self._free_since: dict[tuple[int, int], float] = {}
        self._was_beaten = False
        self._told_at = float("-inf")

    def acquire(self) -> tuple[Grant, Details, float]:
        """Acquire a resource; return the grant, its details, and the moment before it by the monotonic clock.

        Raises:
            ResourceUnavailable: others held all resources for as long as the request waits.
            TaskException: a transaction is open: a lease that is not committed excludes no other process.
            Cancelled: the request was cancelled.
        """
        alias = self._request.alias
        refuse_in_transaction(alias, "a lease cannot be acquired")
        while True:
            grant, begun = self._win()
            try:
                found = resources.details(alias, grant)
                is_wanted = found is None or self._accepts(found)
            except BaseException:
                with suppress(Error):  # the resource is then free after its ttl
                    resources.release(alias, grant)
                raise
            if found and is_wanted:
                return grant, found, begun
            if found:  # otherwise it was released by force at once
                resources.release(alias, grant)

    def _accepts(self, found: Details) -> bool:
        return True

    def _win(self) -> Won:
        deadline = None if self._request.wait is None else clock.monotonic() + self._request.wait
        if self._request.wait == 0:  # no second look finds what another node has just given back
            reconnecting(self._request.alias, lambda: catch_up(self._request.alias))
        if won := self._snatch():
            return won
        if self._request.wait == 0:
            raise self._unavailable()
        return self._stand_in_line(deadline)

    def _stand_in_line(self, deadline: float | None) -> Won:
        with standing(self._request.alias, self._request.wanted) as (place, pauses):
            return self._wait(place, pauses, deadline)

    def _snatch(self) -> Won | None:
        """Take a free resource that no contender in the wait queue is waiting for."""
        for _ in range(TRIES):
            won, view = self._try(LAST)
            if won:
                return won
            if not view.free and self._say_busy():
                continue
            if len(view.free) <= view.ahead:
                break
        return None

    def _wait(self, place: int, pauses: Pauses, deadline: float | None) -> Won:
        alias, used = self._request.alias, None
        while True:
            try:
                used = opened(alias)
                won, view = self._try(place)
                if won:
                    return won
                if has_passed(deadline):
                    raise self._unavailable()
                if not view.is_in_line:
                    stand_again(alias, self._request.wanted, place)
                if not view.free and clock.monotonic() - self._told_at >= TOLD_AGAIN:
                    self._say_busy()
            except Error as error:
                if has_passed(deadline) or not may_pass(error, alias, used):
                    raise
                logger.warning("the database failed during the wait for %s: %s", describe(self._request.wanted), error)
                pauses.sleep_for(MAX_PAUSE, deadline)
            else:
                pauses.sleep(view.ahead, bool(view.free), deadline)

    def _try(self, place: int) -> tuple[Won | None, View]:
        request, begun = self._request, clock.monotonic()
        if request.is_cancelled():
            raise Cancelled
        view = reconnecting(request.alias, lambda: line.queue_view(request.alias, request.wanted, place))
        chosen = self._choose(view, begun)
        if chosen is None:
            return None, view
        grant = self._take(chosen)
        self._was_beaten = grant is None
        if grant is None:
            return None, view
        if view.ahead >= len(view.free):
            with suppress(Error):  # the next contender marks them as passed by
                line.pass_by(request.alias, request.wanted, place, len(view.free))
        return (grant, begun), view

    def _take(self, chosen: tuple[int, int]) -> Grant | None:
        request, holder = self._request, uuid.uuid4().hex
        used = opened(request.alias)
        try:
            return resources.take(request.alias, chosen, holder, max(request.ttl, request.at_least))
        except Error:
            if not is_current(request.alias, used):  # the answer may be lost with it, and not the lease
                pk, version = chosen
                grant = Grant(pk, version + 1, holder)
                with suppress(Error):
                    if resources.is_held(request.alias, grant):
                        return grant
            raise

    def _choose(self, view: View, now: float) -> tuple[int, int] | None:
        """Return the free resource for this place in the wait queue, counted from the least recently used.

        If more contenders are ahead than resources are free, return one that has been free for ``GRACE``: the
        contenders ahead may have died.
        """
        self._free_since = {resource: self._free_since.get(resource, now) for resource in view.free}
        if view.ahead < len(view.free):
            # Other contenders took the last choice first, and would take the next in order as well.
            return random.choice(view.free[view.ahead :]) if self._was_beaten else view.free[view.ahead]
        lying = [resource for resource, since in self._free_since.items() if now - since >= GRACE]
        return random.choice(lying) if lying else None

    def _say_busy(self) -> bool:
        self._told_at = clock.monotonic()
        return self._when_busy()

    def _unavailable(self) -> ResourceUnavailable:
        wait = self._request.wait
        return ResourceUnavailable(
            f"{describe(self._request.wanted)} was not available " + (f"within {wait:.3g} s" if wait else "at once")
        )


def may_pass(error: Error, alias: str, used: Any) -> bool:
    """Return whether the error may pass: another connection holds a lock, or the one that was ``used`` was given up."""
    return is_transient(error) or not is_current(alias, used)


def has_passed(deadline: float | None) -> bool:
    """Return whether this monotonic moment has passed; None never has."""
    return deadline is not None and clock.monotonic() >= deadline


def describe(wanted: WantedResource) -> str:
    """Return the name of the resource or mutex for messages."""
    if wanted.pool == resources.MUTEXES:
        return f"mutex {wanted.name!r}"
    return f"{f'resource {wanted.name!r}' if wanted.name else 'a resource'} of pool {wanted.pool!r}"


def refuse_in_transaction(alias: str, refusal: str) -> None:
    """Raise TaskException if a transaction is open, except the one that a TestCase opens around each test."""
    connection = connections[alias]
    if in_transaction(connection) and not is_in_test_case(connection):
        off = "" if connection.in_atomic_block else " (autocommit is off)"
        raise TaskException(f"{refusal} inside a transaction{off}: other processes would not see it")
