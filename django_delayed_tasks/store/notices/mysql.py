"""Notices on MariaDB and MySQL: a listener sleeps in the server, and KILL QUERY ends its statement.

A listener has a connection of its own, on which it runs nothing but ``SELECT SLEEP``. It holds a user-level lock whose
name follows from the executor's name, so the server itself tells which connection to wake. An account may end the
statements of its own connections without any privilege.

KILL must never reach another statement. A server does not use the id of a connection twice before it is restarted, and
a restart ends the sender's connection as well: so an id is remembered for as long as the connection through which it
was read, and no longer. A proxy may know its connections by other ids than the server does. So nothing is sent, and no
listener sleeps, on a connection whose id, as the client was told it, is not the server's own.
"""

import json
import random
from typing import Any, Final

from django.db import OperationalError, connections

from django_delayed_tasks import clock
from django_delayed_tasks.store.notices import CannotListen, Notice
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.store.sql.tables import EXECUTOR
from django_delayed_tasks.support import forks

LOOK_EVERY: Final = 1.0
"""Seconds for which a connection remembers who listens."""
SLEEP: Final = 5.0
"""Seconds after which a listener sleeps again: servers log statements that take longer than ten."""

_LOCK: Final = "CONCAT('ddt', SHA2(CONCAT(DATABASE(), '/', {name}), 224))"
_ENDED: Final = 1317
"""MariaDB's error for a statement that KILL ended; MySQL returns 1 from SLEEP."""
_NO_SUCH_CONNECTION: Final = 1094
"""The error for a connection to KILL that has gone."""
_BLOCKS: Final = "its driver cannot wait without blocking; mysqlclient can"
_PROXIED: Final = "a proxy is in front of the database: let executors connect to the server itself"

_own: set[int] = set()
"""The connections of this process that listen; :func:`wakeup.wake` reaches their executors."""
forks.forget_in_child(_own.clear)


def can_notify(alias: str) -> bool:
    """Return True: only an open connection can tell whether something, such as a proxy, prevents notices."""
    return True


can_listen = can_notify


class _Listener:
    """A connection that sleeps, and the queues that its executor serves (None: all) and excludes."""

    def __init__(self, connection_id: int, queues: str | None, exclude_queues: str | None) -> None:
        self.id = connection_id
        self._queues = _names(queues)
        self._excluded = _names(exclude_queues) or ()

    def serves(self, queue: str) -> bool:
        return not queue or (queue not in self._excluded and (self._queues is None or queue in self._queues))


def _names(text: str | None) -> list[str] | None:
    names = json.loads(text) if text else None
    return names if isinstance(names, list) else None  # the caller of add_task must not pay for a wrong row


def notify(alias: str, queue: str) -> None:
    """Wake one of the listeners that serve the queue, chosen at random; all of them for the queue "".

    Raises:
        django.db.Error: the database refuses it.
    """
    serving = [one for one in _listeners(alias) if one.serves(queue)]
    random.shuffle(serving)
    for listener in serving:
        if _wake(alias, listener) and queue:
            return


def _wake(alias: str, listener: _Listener) -> bool:
    """Return False if the listener has gone."""
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute(f"KILL QUERY {listener.id:d}")
    except OperationalError as error:
        if error.args[0] != _NO_SUCH_CONNECTION:
            raise
        _forget(alias)
        return False
    return True


def _forget(alias: str) -> None:
    connections[alias].connection.listeners = None


def _listeners(alias: str) -> list[_Listener]:
    """Return the listeners in other processes, as this connection read them less than a second ago."""
    connection = connections[alias]
    connection.ensure_connection()
    session = connection.connection
    looked, known = getattr(session, "listeners", None) or (float("-inf"), [])
    if clock.monotonic() - looked >= LOOK_EVERY:
        known = _read(alias)
        session.listeners = clock.monotonic(), known
    return [one for one in known if one.id not in _own]


def _read(alias: str) -> list[_Listener]:
    lock = _LOCK.format(name="e.name")
    with connections[alias].cursor() as cursor:
        # A proxy would answer a statement that asks for CONNECTION_ID() alone.
        cursor.execute(
            f"SELECT CONNECTION_ID(), VERSION(), IS_USED_LOCK({lock}), e.queues, e.exclude_queues"
            f" FROM {EXECUTOR} e WHERE e.alive = TRUE"
        )
        rows = cursor.fetchall()
    session = connections[alias].connection
    return [
        _Listener(listener, queues, excluded)
        for own, version, listener, queues, excluded in rows
        if listener is not None and _is_direct(session, own, version)
    ]


def _is_direct(session: Any, connection_id: int, version: str) -> bool:
    """Return whether the driver's connection leads to the server that has answered, with no proxy in between."""
    return bool(session.thread_id() == connection_id and session.get_server_info().endswith(version))


class Subscription:
    """A connection that sleeps until it is woken; ``fileno()`` is readable when it was."""

    is_broadcast = False

    def __init__(self, alias: str, executor: str) -> None:
        """Connect and listen for the ``executor`` of this name.

        Raises:
            Error: of the driver: the connection cannot be opened.
            CannotListen: there is a proxy in between, or the server has no user-level locks.
        """
        wrapper = connections[alias]
        self._errors = wrapper.Database.Error  # type: ignore[attr-defined]
        self._connection = wrapper.Database.connect(**wrapper.get_connection_params())  # type: ignore[attr-defined]
        if not hasattr(self._connection, "send_query"):
            self._connection.close()
            raise CannotListen(_BLOCKS)
        self._number: int = self._connection.fileno()  # kept, because a lost connection has none
        try:
            self._lift_limit(dialect_of(wrapper).unlimited)
            self._take_name(executor)
            self._sleep()
        except BaseException:
            self.close()
            raise
        _own.add(self._connection.thread_id())

    def _lift_limit(self, unlimited: str) -> None:
        # MySQL returns 1 from a SLEEP that ran into its limit, too.
        with self._connection.cursor() as cursor:
            cursor.execute(unlimited)

    def _take_name(self, executor: str) -> None:
        lock = _LOCK.format(name="CONVERT(%s USING utf8mb4)")
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT CONNECTION_ID(), VERSION(), IS_USED_LOCK({lock})", [executor])
            connection_id, version, holder = cursor.fetchone()
            if not _is_direct(self._connection, connection_id, version):
                raise CannotListen(_PROXIED)
            if holder is not None:
                self._end(holder)
            cursor.execute(f"SELECT GET_LOCK({lock}, {SLEEP})", [executor])
            [is_taken] = cursor.fetchone()
            if not is_taken:
                raise ConnectionError(f"the lock of the name {executor!r} could not be taken")

    def _end(self, predecessor: int) -> None:
        """End the connection of a process that had the same name: the server would notice only when its sleep ends."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"KILL {predecessor:d}")
        except self._errors as error:
            if error.args[0] != _NO_SUCH_CONNECTION:
                raise

    def _sleep(self) -> None:
        self._connection.send_query(f"SELECT SLEEP({SLEEP}) /* an executor waits for new tasks */".encode())

    def fileno(self) -> int:
        return self._number

    def receive(self) -> list[Notice]:
        """Return one notice, for any queue, if the sleep was ended; none if it ended by itself.

        The connection sleeps again before the executor searches for tasks, so that no task is missed in between. A KILL
        QUERY that arrives between two sleeps ends nothing.

        Raises:
            Error: of the driver: the connection is lost.
        """
        is_woken = self._is_woken()
        self._sleep()
        return [Notice("", is_own=False)] if is_woken else []

    def _is_woken(self) -> bool:
        try:
            self._connection.read_query_result()
            [[is_woken]] = self._connection.store_result().fetch_row()
        except self._errors as error:
            if error.args[0] != _ENDED:
                raise
            return True
        return bool(int(is_woken))

    def close(self) -> None:
        """Close the connection."""
        _own.discard(self._connection.thread_id())
        self._connection.close()
