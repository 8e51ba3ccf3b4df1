"""Leases that this process holds, and how long it can trust them.

The trust is measured by the monotonic clock, from the *start* of the last successful renewal: the database counts from
a later moment, so a holder stops trusting its lease before another process can acquire it.
"""

import logging
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from threading import get_ident

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import LeaseLost
from django_delayed_tasks.leases import line
from django_delayed_tasks.leases.reconnecting import reconnecting
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.store.resources import resources
from django_delayed_tasks.store.resources.resources import Details, Grant, Wanted

logger = logging.getLogger(__name__)

TRUSTED_PART = 2 / 3


class Lease:
    """One resource held by this process, renewed in the background until :meth:`release`."""

    kept_until: datetime | None = None
    """The moment by the database's clock before which the resource is not free, even if the lease is given back."""

    def __init__(
        self, alias: str, pool: str, what: str, grant: Grant, details: Details, ttl: timedelta, begun: float
    ) -> None:
        """Start renewing; ``what`` is the name for messages, ``begun`` the monotonic moment before the acquisition."""
        self.alias = alias
        self.pool = pool
        self.grant = grant
        self.ttl = ttl
        self.name = details.name
        self._what = what
        self._is_over = False
        self._pid = os.getpid()
        self.thread = get_ident()
        self.renewed(begun)
        renewer.keep(self)

    @property
    def token(self) -> int:
        """A number that grows with every acquisition of this name; an outside system can refuse a smaller one."""
        return self.grant.version

    @property
    def is_held(self) -> bool:
        """Whether no other process can hold it yet, as far as this process knows without a query; costs nothing."""
        return not self._is_given_up and clock.monotonic() < self._trusted_until

    @property
    def _is_given_up(self) -> bool:
        # In a forked child, the lease belongs to the parent.
        return self._is_over or os.getpid() != self._pid

    def check(self) -> None:
        """Ask the database whether the lease is still held; call this before an effect outside the database.

        Raises:
            LeaseLost: the lease was not renewed in time, was released by force, or was given back.
            DatabaseError: the database did not answer; whether the lease is held is unknown.
        """
        if self._is_given_up or not self._ask(resources.is_held):
            self.lose()
            raise LeaseLost(f"{self._what} is no longer held")

    def _ask(self, verb: Callable[..., bool], *values: object) -> bool:
        return reconnecting(self.alias, lambda: verb(self.alias, self.grant, *values))

    def release(self) -> bool:
        """Give the lease back, and renew it no more; return False if it was lost before."""
        if not self._give_back(resources.release, self.kept_until):
            return False
        line.wake(self.alias, Wanted(self.pool, self.name))
        return True

    def quarantine(self, period: timedelta) -> bool:
        """Give the lease back, and disable the resource for ``period``; return False if it was lost before."""
        return self._give_back(resources.quarantine, period)

    def _give_back(self, verb: Callable[..., bool], *values: object) -> bool:
        if self._end():
            return False
        was_held = self._ask(verb, *values)
        if not was_held:
            self._say_lost()
        return was_held

    def _end(self) -> bool:
        was_over, self._is_over = self._is_given_up, True
        renewer.drop(self)
        return was_over

    def renewed(self, begun: float) -> None:
        """Note that a renewal that began at this monotonic moment succeeded."""
        self.runs_until = begun + self.ttl.total_seconds()
        """The monotonic moment until which no other process can acquire it, unless it is released by force."""
        self._trusted_until = begun + self.ttl.total_seconds() * TRUSTED_PART

    def lose(self) -> None:
        """Note that the lease is no longer held."""
        if not self._end():
            self._say_lost()

    def _say_lost(self) -> None:
        logger.warning("%s was lost (token %d): not renewed in time, or released by force", self._what, self.token)
