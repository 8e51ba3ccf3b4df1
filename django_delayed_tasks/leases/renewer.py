"""One thread for each process renews all that the process holds, and its places in line, on its own connection."""

import logging
import os
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from threading import Condition, Thread
from typing import Final, Protocol, TypeVar

from django.db import Error, connections

from django_delayed_tasks import clock
from django_delayed_tasks.store import resources, waiting
from django_delayed_tasks.store.resources import Grant

logger = logging.getLogger(__name__)

RENEWALS: Final = 3
"""In each ttl: one may fail and the next one is in time."""
TOGETHER: Final = 0.25
"""What is due within this part of its interval is renewed along with the rest."""
PLACE_TTL: Final = timedelta(seconds=6)
"""Of a place in line."""


class Kept(Protocol):
    """A lease as the renewer sees it."""

    alias: str
    grant: Grant
    ttl: timedelta

    def renewed(self, begun: float) -> None:
        """A renewal that began at this monotonic moment succeeded."""

    def lose(self) -> None:
        """It is held no more."""


class Place:
    """A place in line that is kept until it is dropped."""

    ttl = PLACE_TTL

    def __init__(self, alias: str, pk: int) -> None:
        self.alias = alias
        self.pk = pk


Entry = TypeVar("Entry", Place, Kept)


class Renewer:
    """Keeps leases and places. The thread starts with the first of them and has no connection while there is none."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._due: dict[Kept | Place, float] = {}
        self._thread: Thread | None = None

    def keep(self, entry: Kept | Place) -> None:
        """Renew it from now on; it was just acquired."""
        with self._changed:
            self._due[entry] = clock.monotonic() + _interval(entry)
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._repeat, name="ddt-leases", daemon=True)
                self._thread.start()
            self._changed.notify()

    def drop(self, entry: Kept | Place) -> None:
        """Renew it no more."""
        with self._changed:
            self._due.pop(entry, None)

    def _repeat(self) -> None:
        while True:
            due = self._await_due()
            try:
                self.renew(due)
            except Error as error:
                logger.warning("leases could not be renewed: %s", error)
                _discard_broken_connections()
            except Exception:
                logger.exception("leases could not be renewed")

    def _await_due(self) -> list[Kept | Place]:
        with self._changed:
            while True:
                now = clock.monotonic()
                if any(moment <= now for moment in self._due.values()):
                    return self._take_due(now)
                if not self._due:
                    connections.close_all()
                self._changed.wait(min(self._due.values()) - now if self._due else None)

    def _take_due(self, now: float) -> list[Kept | Place]:
        # Due again after a part of the interval, whatever comes of this renewal; a success sets it anew.
        due = [entry for entry, at in self._due.items() if at <= now + _interval(entry) * TOGETHER]
        for entry in due:
            self._due[entry] = now + _interval(entry) / RENEWALS
        return due

    def renew(self, due: Iterable[Kept | Place]) -> None:
        """Renew all of these: one statement for each ttl of each database.

        Raises:
            DatabaseError: some could not be renewed.
        """
        by_alias: defaultdict[str, list[Kept | Place]] = defaultdict(list)
        for entry in due:
            by_alias[entry.alias].append(entry)
        for alias, entries in by_alias.items():
            self._renew_leases(alias, [entry for entry in entries if not isinstance(entry, Place)])
            self._renew_places(alias, [entry for entry in entries if isinstance(entry, Place)])

    def _renew_leases(self, alias: str, leases: list[Kept]) -> None:
        begun = clock.monotonic()
        held = resources.renew(alias, [(lease.grant, lease.ttl) for lease in leases])
        for lease in leases:
            if lease.grant in held:
                lease.renewed(begun)
                self._postpone(lease, begun)
            elif lease in self._due:  # else it was given back meanwhile
                lease.lose()

    def _renew_places(self, alias: str, places: list[Place]) -> None:
        if places:
            begun = clock.monotonic()
            waiting.renew(alias, [place.pk for place in places], PLACE_TTL)
            waiting.sweep(alias)
            for place in places:
                self._postpone(place, begun)

    def _postpone(self, entry: Kept | Place, begun: float) -> None:
        with self._changed:
            if entry in self._due:
                self._due[entry] = begun + _interval(entry)

    def forget(self) -> None:
        """In a forked child: what is held is held by the parent."""
        self.__init__()  # type: ignore[misc]


def _interval(entry: Kept | Place) -> float:
    return entry.ttl.total_seconds() / RENEWALS


def _discard_broken_connections() -> None:
    for connection in connections.all(initialized_only=True):
        connection.errors_occurred = False
        if connection.connection is not None and not connection.is_usable():
            connection.close()


renewer = Renewer()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=renewer.forget)
