"""Every connection that a server has is taken."""

import contextlib
import random
import time
from threading import Event, Thread
from typing import TYPE_CHECKING

from django.db import DatabaseError, InterfaceError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from harness.torture.faults.base import Fault, in_mix

if TYPE_CHECKING:
    from harness.torture.world import World

PATIENCE = 10.0
"""Seconds for which the driver tries to connect; executors may have taken every connection themselves."""


@in_mix
class ConnectionsExhausted(Fault):
    """Another client takes every connection that the server has, and those of the executors are ended."""

    kind = "connections exhausted (max_connections)"
    databases = frozenset({"mariadb", "mysql", "postgres"})
    weight = 0.7
    lasts = 3.0
    cuts_off = True

    def __init__(self) -> None:
        self._stop = Event()
        self._thread: Thread | None = None
        self.refusals = 0

    def inject(self, world: "World", chance: random.Random) -> bool:
        # The driver may have lost its connection to an earlier fault, and gets no other once all are taken.
        if not have_connection(PATIENCE):
            return False
        full = Event()
        self._stop = Event()
        self._thread = Thread(target=self._hold_all, args=(self._stop, full), name="hog", daemon=True)
        self._thread.start()
        full.wait(60)
        try:
            return self._end_connections(world, chance)
        except (DatabaseError, InterfaceError):  # what is not injected is not healed
            self.heal(world)
            return False

    def _end_connections(self, world: "World", chance: random.Random) -> bool:
        """End connections of the executors; return whether there were any."""
        return end_connections_of(world)

    def _hold_all(self, stop: Event, full: Event) -> None:
        held: list[BaseDatabaseWrapper] = []
        while not stop.is_set():
            # Take each connection that becomes free before executors can.
            taker = connections.create_connection("default")
            try:
                taker.ensure_connection()
                held.append(taker)
            except DatabaseError:
                self.refusals += 1
                full.set()
                stop.wait(0.01)
        for one in held:
            one.close()

    def heal(self, world: "World") -> None:
        self._stop.set()
        if self._thread:
            self._thread.join(60)


@in_mix
class ConnectionFamine(ConnectionsExhausted):
    """Another client takes every connection that is free, and half of those of the executors are ended.

    So some executors claim tasks for which their threads have no connection, or have threads with one and others
    without.
    """

    kind = "connection famine (none is free, and half are ended)"
    lasts = 6.0

    def _end_connections(self, world: "World", chance: random.Random) -> bool:
        end_connections_of(world, chance)
        return True


def have_connection(patience: float) -> bool:
    """Return whether the driver has a connection that works, or gets one within ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while connection.connection is None or not connection.is_usable():
        with contextlib.suppress(DatabaseError):  # mysqlclient refuses to close what is closed
            connection.close()
        try:
            connection.ensure_connection()
        except DatabaseError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
    return True


def end_connections_of(world: "World", chance: random.Random | None = None) -> bool:
    """End the connections of the executors at the server, or about half of them if there is a ``chance``.

    Return whether there were any.
    """
    with connection.cursor() as cursor:
        cursor.execute(_OLDEST[connection.vendor], [])
        found = [row[0] for row in cursor.fetchall()]
        for one in found if chance is None else chance.sample(found, len(found) // 2):
            with contextlib.suppress(DatabaseError):  # it has gone by itself
                cursor.execute(_END[connection.vendor] % one)
    return bool(found)


# The oldest: an executor's threads keep theirs, and the hog came later. The driver may lose one as well.
_OLDEST = {
    "mysql": (
        "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user LIKE 'ddt%%'"
        " ORDER BY id LIMIT 20"
    ),
    "postgresql": (
        "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        " ORDER BY backend_start LIMIT 20"
    ),
}
_END = {"mysql": "KILL %d", "postgresql": "SELECT pg_terminate_backend(%d)"}
