"""What is held now, and how long that can be trusted.

What can be trusted is told by the monotonic clock, counted from the *start* of the last renewal that succeeded: the
database counts from later, so a holder doubts its lease before anybody else may have it.
"""

import logging
import os
from collections.abc import Callable
from datetime import timedelta
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

    def __init__(
        self, alias: str, pool: str, what: str, grant: Grant, details: Details, ttl: timedelta, begun: float
    ) -> None:
        """``what`` is its name for people; ``begun`` the monotonic moment before it was acquired."""
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
        """Grows with every acquisition of this name; an outside system can refuse a smaller one."""
        return self.grant.version

    @property
    def is_held(self) -> bool:
        """Whether nobody else can have it yet, as far as this process can tell without asking; costs nothing."""
        return not self._is_given_up and clock.monotonic() < self._trusted_until

    @property
    def _is_given_up(self) -> bool:
        # In a forked child it is the parent's.
        return self._is_over or os.getpid() != self._pid

    def check(self) -> None:
        """Ask the database whether it is still held: to be called before an effect outside of it.

        Raises:
            LeaseLost: it was not renewed in time, released by force, or given back.
            DatabaseError: the database did not answer; that it is held is then unknown.
        """
        if self._is_given_up or not self._ask(resources.is_held):
            self.lose()
            raise LeaseLost(f"{self._what} is not held any more")

    def _ask(self, verb: Callable[..., bool], *values: object) -> bool:
        return reconnecting(self.alias, lambda: verb(self.alias, self.grant, *values))

    def release(self) -> bool:
        """Give it back; False when it was lost before. Afterwards nothing more happens to it from here."""
        if not self._give_back(resources.release):
            return False
        line.wake(self.alias, Wanted(self.pool, self.name))
        return True

    def quarantine(self, period: timedelta) -> bool:
        """Give it back, to be given to nobody for so long; False when it was lost before."""
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
        """A renewal that began at this monotonic moment succeeded."""
        self.runs_until = begun + self.ttl.total_seconds()
        """The monotonic moment until which nobody else can have it, unless by force."""
        self._trusted_until = begun + self.ttl.total_seconds() * TRUSTED_PART

    def lose(self) -> None:
        """It was found to be held no more."""
        if not self._end():
            self._say_lost()

    def _say_lost(self) -> None:
        logger.warning("%s was lost (token %d): it was not renewed in time, or taken away", self._what, self.token)
