"""How a resource is got when others want one too: in the order of a line, by looking now and then."""

import logging
import random
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import Error, connections

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import ResourceUnavailable, TaskException
from django_delayed_tasks.leases import line
from django_delayed_tasks.leases.pauses import GRACE, LONGEST, Pauses
from django_delayed_tasks.leases.reconnecting import is_outage, reconnecting
from django_delayed_tasks.store.resources import line as waiting
from django_delayed_tasks.store.resources import resources
from django_delayed_tasks.store.resources.line import LAST, View
from django_delayed_tasks.store.resources.resources import Details, Grant, Wanted
from django_delayed_tasks.store.sql.transactions import in_transaction, is_transient

logger = logging.getLogger(__name__)

TRIES: Final = 5
"""How often somebody who does not stand in line goes for another free resource when one was snatched away."""
TOLD_AGAIN: Final = 5.0
"""Seconds between two looks at who holds what is wanted."""
Won = tuple[Grant, float]
"""A grant, and the monotonic moment before it was asked for."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is wanted, how long a lease lasts, and for how many seconds to wait for one (None: for ever)."""

    alias: str
    wanted: Wanted
    ttl: timedelta
    wait: float | None


def acquire(request: Request, when_busy: Callable[[], bool]) -> tuple[Grant, Details, float]:
    """Win a resource, as :meth:`Contender.acquire`: the grant, what is known of it, and the monotonic moment before."""
    while True:
        grant, begun = Contender(request, when_busy).acquire()
        try:
            found = resources.details(request.alias, grant)
        except BaseException:
            with suppress(Error):  # else it is free after its ttl
                resources.release(request.alias, grant)
            raise
        if found:  # else it was taken away again at once
            return grant, found, begun


class Contender:
    """One who wants a resource."""

    def __init__(self, request: Request, when_busy: Callable[[], bool]) -> None:
        """``when_busy()`` is called when nothing is free, and again while waiting; whether to look again at once."""
        self._request = request
        self._when_busy = when_busy
        self._free_since: dict[tuple[int, int], float] = {}
        self._was_beaten = False
        self._told_at = float("-inf")

    def acquire(self) -> Won:
        """Win a resource.

        Raises:
            ResourceUnavailable: others held all for as long as the request says.
            TaskException: a transaction is open: a lease that is not committed excludes nobody.
        """
        refuse_in_transaction(self._request.alias, "a lease cannot be acquired")
        deadline = None if self._request.wait is None else clock.monotonic() + self._request.wait
        if won := self._snatch():
            return won
        if self._request.wait == 0:
            raise self._unavailable()
        with line.standing(self._request.alias, self._request.wanted) as (place, pauses):
            return self._wait(place, pauses, deadline)

    def _snatch(self) -> Won | None:
        """One of those that nobody in line is waiting for."""
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
        while True:
            try:
                won, view = self._try(place)
                if won:
                    return won
                if has_passed(deadline):
                    raise self._unavailable()
                if not view.is_in_line:
                    line.stand_again(self._request.alias, self._request.wanted, place)
                if not view.free and clock.monotonic() - self._told_at >= TOLD_AGAIN:
                    self._say_busy()
            except Error as error:
                if has_passed(deadline) or not may_pass(error, self._request.alias):
                    raise
                logger.warning("%s is waited for, and so is the database: %s", describe(self._request.wanted), error)
                pauses.sleep_for(LONGEST, deadline)
            else:
                pauses.sleep(view.ahead, bool(view.free), deadline)

    def _try(self, place: int) -> tuple[Won | None, View]:
        request, begun = self._request, clock.monotonic()
        view = reconnecting(request.alias, lambda: waiting.look(request.alias, request.wanted, place))
        chosen = self._choose(view, begun)
        if chosen is None:
            return None, view
        grant = resources.take(request.alias, chosen, uuid.uuid4().hex, request.ttl)
        self._was_beaten = grant is None
        if grant is None:
            return None, view
        if view.ahead >= len(view.free):
            with suppress(Error):  # they are passed by again
                waiting.pass_by(request.alias, request.wanted, place, len(view.free))
        return (grant, begun), view

    def _choose(self, view: View, now: float) -> tuple[int, int] | None:
        """The one that falls to this place, counted from the least recently used.

        When more are ahead than are free, one that has been lying there for a while: those ahead may have died.
        """
        self._free_since = {resource: self._free_since.get(resource, now) for resource in view.free}
        if view.ahead < len(view.free):
            # What was snatched away a moment ago was wanted by others too, and so will be the next in order.
            return random.choice(view.free[view.ahead :]) if self._was_beaten else view.free[view.ahead]
        lying = [resource for resource, since in self._free_since.items() if now - since >= GRACE]
        return random.choice(lying) if lying else None

    def _say_busy(self) -> bool:
        self._told_at = clock.monotonic()
        return self._when_busy()

    def _unavailable(self) -> ResourceUnavailable:
        wait = self._request.wait
        return ResourceUnavailable(
            f"{describe(self._request.wanted)} could not be had " + (f"within {wait:.3g} s" if wait else "at once")
        )


def may_pass(error: Error, alias: str) -> bool:
    """Whether the database may answer in a while: somebody keeps it locked, or it is gone."""
    return is_transient(error) or is_outage(alias)


def has_passed(deadline: float | None) -> bool:
    """Whether this monotonic moment is over; None never is."""
    return deadline is not None and clock.monotonic() >= deadline


def describe(wanted: Wanted) -> str:
    """For people."""
    return f"mutex {wanted.name!r}" if wanted.pool == resources.MUTEXES else f"a resource of pool {wanted.pool!r}"


def refuse_in_transaction(alias: str, refusal: str) -> None:
    """Raise TaskException if a transaction is open, other than the one that a TestCase puts around each test."""
    connection = connections[alias]
    blocks = connection.atomic_blocks
    is_of_test = connection.in_atomic_block and blocks and getattr(blocks[-1], "_from_testcase", False)
    if in_transaction(connection) and not is_of_test:
        off = "" if connection.in_atomic_block else " (autocommit is off)"
        raise TaskException(f"{refusal} inside a transaction{off}: other processes would not see it")
