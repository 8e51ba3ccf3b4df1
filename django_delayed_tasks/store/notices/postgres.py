"""PostgreSQL's NOTIFY and LISTEN: a hint to executors of other processes that there is something to claim.

Nothing depends on it. It is said after the commit, not in the same transaction: whoever commits a NOTIFY holds a lock
of the whole server until the commit is on the disk, so that all who add tasks would wait for each other.
"""

import logging
import os
import secrets
import selectors
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.db import Error, connections

from django_delayed_tasks import clock

if TYPE_CHECKING:
    import psycopg

logger = logging.getLogger(__name__)

CHANNEL: Final = "django_delayed_tasks"
SILENCE: Final = 60.0
"""Seconds for which nothing is said after it failed: the database may be one that cannot."""
ECHO: Final = 3.0
"""Seconds in which a pooler passes on what was said, if it passes on anything."""
_KEEPALIVE: Final[dict[str, Any]] = {
    "connect_timeout": 5, "keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3,
}  # fmt: skip
_TOKEN: Final = secrets.token_hex(4)
_silent_until: dict[str, float] = {}


class Notice(NamedTuple):
    """Something to claim was added to this queue ("": to any)."""

    queue: str
    is_own: bool
    """Whether this process said it."""


def _process() -> str:
    return f"{_TOKEN}-{os.getpid()}"  # a fork has the same token


def can_notify(alias: str) -> bool:
    """Whether this database passes notices on."""
    return connections[alias].vendor == "postgresql"


def notify(alias: str, queue: str = "") -> None:
    """Say, outside of any transaction, that something was added; that it cannot be said is no error."""
    if _silent_until.get(alias, 0.0) > clock.monotonic():
        return
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, f"{_process()} {queue}"])
    except Error as error:
        _silent_until[alias] = clock.monotonic() + SILENCE
        logger.info("executors of other processes are not told of new tasks, they find them when they look: %s", error)


def can_listen(alias: str) -> bool:
    """Whether notices can be heard here: on PostgreSQL, with psycopg 3."""
    if not can_notify(alias):
        return False
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    return bool(is_psycopg3)


def _connect(parameters: dict[str, Any]) -> "psycopg.Connection[Any]":
    import psycopg

    connect: Callable[..., psycopg.Connection[Any]] = psycopg.connect
    return connect(**parameters, autocommit=True)


class Deaf(Exception):
    """Nothing can be heard through the pooler that the connection leads to."""


class Ears:
    """A connection of its own that hears notices; ``fileno()`` is readable when there is one."""

    def __init__(self, alias: str) -> None:
        """Connect and listen.

        Raises:
            psycopg.Error: there is no connection to be had.
            Deaf: a pooler gives each transaction a session of its choice, as PgBouncer does in transaction mode.
        """
        parameters = _KEEPALIVE | connections[alias].get_connection_params()
        self._connection = _connect(parameters)
        # Kept: a connection that is lost has none.
        self._number = self._connection.fileno()
        try:
            if self._is_pooled() and not self._hears_itself(parameters):
                raise Deaf
            self._connection.execute(f"LISTEN {CHANNEL}")
        except BaseException:
            self.close()
            raise

    def _is_pooled(self) -> bool:
        """Whether there is a pooler in between, which invents the process id that a client is told."""
        row = self._connection.execute("SELECT pg_backend_pid()").fetchone()
        return row is None or row[0] != self._connection.info.backend_pid

    def _hears_itself(self, parameters: dict[str, Any]) -> bool:
        """Whether what another connection says now arrives: a pooler in session mode passes it on."""
        # A channel for this alone: a session of the server that goes on listening for it is told nothing any more.
        channel = f"{CHANNEL}_{secrets.token_hex(8)}"
        self._connection.execute(f"LISTEN {channel}")
        with _connect(parameters) as other:
            other.execute("SELECT pg_notify(%s, '')", [channel])
        is_heard = self._hears_within(ECHO)
        self._connection.execute(f"UNLISTEN {channel}")
        return is_heard

    def _hears_within(self, seconds: float) -> bool:
        deadline = clock.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            while (left := deadline - clock.monotonic()) > 0:
                if selector.select(left) and self.hear():
                    return True
        return False

    def fileno(self) -> int:
        return self._number

    def hear(self) -> list[Notice]:
        """What has come. Raises psycopg.Error when the connection is lost."""
        notices = []
        self._connection.pgconn.consume_input()
        while said := self._connection.pgconn.notifies():
            process, _, queue = said.extra.decode(errors="replace").partition(" ")
            notices.append(Notice(queue, process == _process()))
        return notices

    def close(self) -> None:
        """Hear no more."""
        self._connection.close()
