"""PostgreSQL's NOTIFY and LISTEN.

The notice is sent after the commit, not in the same transaction: a transaction that commits a NOTIFY holds a
server-wide lock until the commit is on disk, so all callers that add tasks would wait for each other.
"""

import secrets
import selectors
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from django.db import connections

from django_delayed_tasks import clock
from django_delayed_tasks.store import notices
from django_delayed_tasks.store.notices import CannotListen, Notice

if TYPE_CHECKING:
    import psycopg

CHANNEL: Final = "django_delayed_tasks"
ECHO: Final = 3.0
"""Seconds within which a pooler delivers a notice, if it delivers notices at all."""
_KEEPALIVE: Final[dict[str, Any]] = {
    "connect_timeout": 5, "keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3,
}  # fmt: skip
_POOLED: Final = (
    "the pooler in front of the database passes no notices on (transaction mode?): let executors connect to the server "
    "itself"
)


def can_notify(alias: str) -> bool:
    """Return True: every PostgreSQL server delivers notices."""
    return True


def notify(alias: str, queue: str) -> None:
    """Send a notice to all listeners.

    Raises:
        django.db.Error: the database refuses it.
    """
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, f"{notices.process()} {queue}"])


def can_listen(alias: str) -> bool:
    """Return whether this process can receive notices: it needs psycopg 3."""
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    return bool(is_psycopg3)


def _connect(parameters: dict[str, Any]) -> "psycopg.Connection[Any]":
    import psycopg

    connect: Callable[..., psycopg.Connection[Any]] = psycopg.connect
    return connect(**parameters, autocommit=True)


class Subscription:
    """A dedicated connection that receives notices; ``fileno()`` is readable when there is one."""

    is_broadcast = True

    def __init__(self, alias: str, executor: str) -> None:
        """Connect and listen.

        Raises:
            psycopg.Error: the connection cannot be opened.
            CannotListen: a pooler runs each transaction in any of its sessions, as PgBouncer does in transaction mode.
        """
        parameters = _KEEPALIVE | connections[alias].get_connection_params()
        self._connection = _connect(parameters)
        # Kept, because a lost connection has no descriptor.
        self._number = self._connection.fileno()
        try:
            if self._is_pooled() and not self._hears_itself(parameters):
                raise CannotListen(_POOLED)
            self._connection.execute(f"LISTEN {CHANNEL}")
        except BaseException:
            self.close()
            raise

    def _is_pooled(self) -> bool:
        """Return whether there is a pooler in between: it makes up the backend process id that clients are told."""
        row = self._connection.execute("SELECT pg_backend_pid()").fetchone()
        return row is None or row[0] != self._connection.info.backend_pid

    def _hears_itself(self, parameters: dict[str, Any]) -> bool:
        """Return whether a notice from another connection arrives: a pooler in session mode delivers it."""
        # A channel for this test alone: a server session that keeps listening to it receives nothing later.
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
                if selector.select(left) and self.receive():
                    return True
        return False

    def fileno(self) -> int:
        return self._number

    def receive(self) -> list[Notice]:
        """Return the notices that have arrived.

        Raises:
            psycopg.Error: the connection is lost.
        """
        notices = []
        self._connection.pgconn.consume_input()
        while said := self._connection.pgconn.notifies():
            notices.append(Notice.parsed(said.extra))
        return notices

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
