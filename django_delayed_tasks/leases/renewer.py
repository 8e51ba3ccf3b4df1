"""Renewal of all leases and wait-queue places of this process, in one thread with one connection for each database.

Each database has a thread of its own, so that a database that does not answer costs no lease in another one.
"""

import atexit
import math
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Condition, Thread
from typing import Final, Protocol

from django.db import Error, connections

from django_delayed_tasks import clock
from django_delayed_tasks.store.resources import line, resources
from django_delayed_tasks.store.resources.resources import Grant
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.support import forks
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

RENEWALS: Final = 3
"""Renewals in each ttl: one may fail, and the next one is still in time."""
PLACE_TTL: Final = timedelta(seconds=6)
"""The time for which a place in the wait queue lasts without renewal."""
LAST_RENEWAL: Final = 1.0
"""Seconds that the end of the process waits for a renewal in progress."""


class RenewableLease(Protocol):
    """A lease as the renewer sees it."""

    alias: str
    grant: Grant
    ttl: timedelta
    kept_until: datetime | None
    renewed_before: float

    def renewed(self, begun: float) -> None:
        """Note that a renewal that began at this monotonic moment succeeded."""

    def lose(self) -> None:
        """Note that the lease is no longer held."""

    def expire(self) -> None:
        """Note that the lease is not renewed any more."""


class Place:
    """A place in the wait queue, which is renewed until it is dropped."""

    ttl = PLACE_TTL
    renewed_before = math.inf

    def __init__(self, alias: str, pk: int) -> None:
        self.alias = alias
        self.pk = pk


class Renewer:
    """Renews leases and places. A thread starts with the first entry, and has no connection while there is none."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._due: dict[RenewableLease | Place, float] = {}
        self._threads: dict[str, Thread] = {}
        self._is_ending = False

    def keep(self, entry: RenewableLease | Place) -> None:
        """Start renewing this entry, which was just acquired."""
        forks.notice()
        with self._changed:
            if not self._is_ending:  # Python 3.12 starts no thread at exit; the lease lasts for its ttl
                self._ensure_thread(entry.alias)
            self._due[entry] = min(clock.monotonic() + _interval(entry), entry.renewed_before)
            self._changed.notify_all()

    def _ensure_thread(self, alias: str) -> None:
        thread = self._threads.get(alias)
        if thread is None or not thread.is_alive():
            thread = Thread(target=self._repeat, args=[alias], name=f"ddt-leases-{alias}", daemon=True)
            thread.start()
            self._threads[alias] = thread

    def drop(self, entry: RenewableLease | Place) -> None:
        """Stop renewing this entry."""
        with self._changed:
            if self._due.pop(entry, None) is not None:
                self._changed.notify_all()

    def leases(self) -> list[RenewableLease]:
        """Return the leases that this process holds."""
        with self._changed:
            return [entry for entry in self._due if not isinstance(entry, Place)]

    def end(self) -> None:
        """Stop at exit: a thread that writes to stderr while the interpreter shuts down makes it abort."""
        forks.notice()
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
            threads = list(self._threads.values())
        for thread in threads:
            thread.join(LAST_RENEWAL)

    def _repeat(self, alias: str) -> None:
        kept_connections.keep()
        kept_connections.record_nothing(connections[alias])
        try:
            self._renew_until_the_end(alias)
        finally:
            kept_connections.close()

    def _renew_until_the_end(self, alias: str) -> None:
        while not self._is_ending:
            due = self._await_due(alias)
            try:
                self.renew(alias, due)
            except Error as error:
                logger.warning("leases in the database %r could not be renewed: %s", alias, error)
            except Exception:
                logger.exception("leases in the database %r could not be renewed", alias)
            else:
                continue
            # Whether the connection is usable does not matter: one whose opening failed may have no autocommit.
            _close(alias)

    def _await_due(self, alias: str) -> list[RenewableLease | Place]:
        while True:
            with self._changed:
                if self._is_ending:
                    return []
                ours = [at for entry, at in self._due.items() if entry.alias == alias]
                now = clock.monotonic()
                if ours and min(ours) <= now:
                    return self._take_due(alias, now)
                if ours or connections[alias].connection is None:
                    self._changed.wait(min(ours) - now if ours else None)
                    continue
            _close(alias)

    def _take_due(self, alias: str, now: float) -> list[RenewableLease | Place]:
        # What is due within a quarter of its interval is renewed along with the rest. All are due again after a part of
        # the interval, even if this renewal fails; a success resets it.
        due = [
            entry for entry, at in self._due.items()
            if entry.alias == alias and at <= now + _interval(entry) / 4
        ]  # fmt: skip
        for entry in due:
            self._due[entry] = now + _interval(entry) / RENEWALS
        return due

    def renew(self, alias: str, due: list[RenewableLease | Place]) -> None:
        """Renew these entries of one database, with one or two statements for each ttl.

        Raises:
            Error: some of them could not be renewed.
        """
        self._renew_places(alias, [entry for entry in due if isinstance(entry, Place)])
        self._renew_leases(alias, [entry for entry in due if not isinstance(entry, Place)])

    def _renew_leases(self, alias: str, leases: list[RenewableLease]) -> None:
        begun = clock.monotonic()
        expired = [lease for lease in leases if lease.renewed_before <= begun]
        for lease in expired:
            lease.expire()
        leases = [lease for lease in leases if lease not in expired]
        kept_until = {lease.grant: lease.kept_until for lease in leases if lease.kept_until}
        found = resources.renew(alias, [(lease.grant, lease.ttl) for lease in leases], kept_until)
        for lease in leases:
            if lease.grant in found.held:
                lease.renewed(begun)
                self._postpone(lease, begun)
            elif lease.grant in found.locked:  # wait for its lock again, after the entries that are due now
                self._postpone(lease, begun - _interval(lease))
            else:  # lost; or given back in the meantime, which lose() ignores
                lease.lose()

    def _renew_places(self, alias: str, places: list[Place]) -> None:
        if places:
            begun = clock.monotonic()
            line.renew(alias, [place.pk for place in places], PLACE_TTL)
            line.sweep(alias)
            for place in places:
                self._postpone(place, begun)

    def _postpone(self, entry: RenewableLease | Place, begun: float) -> None:
        with self._changed:
            if entry in self._due:
                self._due[entry] = min(begun + _interval(entry), entry.renewed_before)

    def forget(self) -> None:
        """Drop all entries in a forked child: the parent holds the leases."""
        self.__init__()  # type: ignore[misc]


def _interval(entry: RenewableLease | Place) -> float:
    return entry.ttl.total_seconds() / RENEWALS


def _close(alias: str) -> None:
    with suppress(Exception):  # an error of the driver, on a connection that is gone
        connections[alias].close()


renewer = Renewer()
atexit.register(renewer.end)
forks.forget_in_child(renewer.forget)
