"""Leases that this process holds, and how long it can trust them.

The trust is measured by the monotonic clock, from the *start* of the last successful renewal: the database counts from
a later moment, so a holder stops trusting its lease before another process can acquire it.
"""

import asyncio
import json
import math
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.db import connections

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import LeaseLost
from django_delayed_tasks.leases import validation
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.leases.waiting import reconnecting, wake
from django_delayed_tasks.store.resources import resources
from django_delayed_tasks.store.resources.resources import Details, Grant, WantedResource
from django_delayed_tasks.store.sql.transactions import in_transaction
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

TRUSTED_PART = 2 / 3
"""The part of its length for which a lease is trusted without a renewal; the rest allows for a process that hangs."""
Owner = int | asyncio.Task[Any] | None
"""The id of the thread that holds a mutex, or the task."""


class Lease:
    """One resource held by this process, renewed in the background until :meth:`release`."""

    kept_until: datetime | None = None
    """The moment by the database's clock before which the resource is not free, even if the lease is given back."""

    def __init__(
        self,
        alias: str,
        pool: str,
        what: str,
        grant: Grant,
        details: Details,
        ttl: timedelta,
        begun: float,
        at_most: float = math.inf,
    ) -> None:
        """Start renewing; ``what`` is the name for messages, ``begun`` the monotonic moment before the acquisition.

        It is renewed for ``at_most`` seconds.
        """
        self.alias = alias
        self.pool = pool
        self.grant = grant
        self.ttl = ttl
        self.name = details.name
        self._what = what
        self._is_over = False
        self._pid = os.getpid()
        self.renewed_before = begun + at_most
        """The monotonic moment from which the lease is not renewed, nor trusted, any more."""
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
        self._insist(resources.is_held)

    def _insist(self, verb: Callable[..., bool], *values: object) -> None:
        """Call the verb for this lease; raise LeaseLost if it is not, or no longer to be, held."""
        if self._has_expired:
            raise LeaseLost(f"{self._what} is no longer held, since its at_most is over")
        if self._is_given_up or not self._ask(verb, *values):
            self.lose()
            raise LeaseLost(f"{self._what} is no longer held")

    @property
    def _has_expired(self) -> bool:
        return clock.monotonic() >= self.renewed_before

    def _ask(self, verb: Callable[..., bool], *values: object) -> bool:
        return reconnecting(self.alias, lambda: verb(self.alias, self.grant, *values))

    def release(self) -> bool:
        """Give the lease back, and renew it no more; return False if it was lost before."""
        if not self._give_back(resources.release, self.kept_until):
            return False
        wake(self.alias, WantedResource(self.pool, self.name))
        return True

    def quarantine(self, period: timedelta) -> bool:
        """Give the lease back, and disable the resource for ``period``; return False if it was lost before.

        A resource whose ``at_most`` is over counts as lost: it is given back, but not disabled.
        """
        if self._has_expired:
            self.release()
            return False
        return self._give_back(resources.quarantine, period)

    def _give_back(self, verb: Callable[..., bool], *values: object) -> bool:
        if self._end():
            return False
        was_held = self._ask(verb, *values)
        if not was_held and not self._has_expired:
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
        self._trusted_until = min(begun + self.ttl.total_seconds() * TRUSTED_PART, self.renewed_before)

    def lose(self) -> None:
        """Note that the lease is no longer held."""
        if not self._end():
            self._say_lost()

    def expire(self) -> None:
        """Renew the lease no more, since its ``at_most`` is over: it ends within its ttl, or when it is given back."""
        renewer.drop(self)
        if not self._is_given_up:
            logger.warning("%s was held for its at_most (token %d): it is not renewed any more", self._what, self.token)

    def _say_lost(self) -> None:
        logger.warning("%s was lost (token %d): not renewed in time, or released by force", self._what, self.token)


class MutexLease(Lease):
    """A held mutex.

    ``state`` is a dict left by the last holder. Its value at the end of the block is left to the next one; after an
    exception, the value that was saved last is.
    """

    def __init__(
        self,
        alias: str,
        grant: Grant,
        details: Details,
        ttl: timedelta,
        begun: float,
        at_least: timedelta,
        at_most: float,
        owner: Owner,
    ) -> None:
        self.owner = owner
        self.kept_until = details.acquired_at + at_least if at_least else None
        self.state: dict[str, Any] = details.state
        self._saved: str | None = json.dumps(details.state)  # may exceed this process's limit: another's may be higher
        """The state as it is committed; None if that depends on a transaction."""
        what = f"mutex {details.name!r}"
        super().__init__(alias, resources.MUTEXES, what, grant, details, ttl, begun, at_most)

    def save_state(self) -> None:
        """Save ``state`` for the next holder now, in case this one does not get to the end.

        In the caller's transaction it is saved if that is committed.

        Raises:
            InvalidTask: ``state`` is not a dict, or is not JSON.
            LeaseLost: the mutex is no longer held; nothing was written. If ``state`` is as it was saved, the database
                is not asked, and this is raised only if it is known.
        """
        if _is_same(self.state, self._saved):
            if not self.is_held:
                self.check()
            return
        text = validation.valid_state(self.state)
        try:
            self._insist(resources.save_state, text)
        except LeaseLost as error:
            raise LeaseLost(f"{error}: its state was not saved") from None
        self._saved = None if in_transaction(connections[self.alias]) else json.dumps(self.state)

    def hand_over(self, has_failed: bool) -> None:
        """Give the mutex back, with the state unless the block has failed; a lost mutex is logged."""
        try:
            if not has_failed:  # else effects that the state stands for may have been rolled back
                self.save_state()
        except LeaseLost:
            pass
        finally:
            self.release()

    def undo(self) -> None:
        """Give the mutex back at once, as if it had not been acquired."""
        self.kept_until = None
        self.release()


def _is_same(state: Any, saved: str | None) -> bool:
    with suppress(TypeError, ValueError, RecursionError):
        return json.dumps(state) == saved
    return False  # saving the state reports what is wrong with it
