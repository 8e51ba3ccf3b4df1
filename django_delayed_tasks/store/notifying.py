"""PostgreSQL's NOTIFY and LISTEN: a hint to executors of other processes that there is something to claim.

Nothing depends on it. It is said after the commit, not in the same transaction: whoever commits a NOTIFY holds a lock
of the whole server until the commit is on the disk, so that all who add tasks would wait for each other.
"""

import logging
import os
import secrets
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from django.db import Error, connections

from django_delayed_tasks import clock

logger = logging.getLogger(__name__)

CHANNEL: Final = "django_delayed_tasks"
SILENCE: Final = 60.0
"""Seconds for which nothing is said after it failed: the database may be one that cannot."""
_KEEPALIVE: Final = {
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


class Ears:
    """A connection of its own that hears notices; ``fileno()`` is readable when there is one."""

    def __init__(self, alias: str) -> None:
        """Raises psycopg.Error when there is no connection to be had."""
        import psycopg

        parameters: dict[str, Any] = _KEEPALIVE | connections[alias].get_connection_params()
        connect: Callable[..., psycopg.Connection[Any]] = psycopg.connect
        self._connection = connect(**parameters, autocommit=True)
        # Kept: a connection that is lost has none.
        self._number = self._connection.fileno()
        try:
            self._connection.execute(f"LISTEN {CHANNEL}")
        except BaseException:
            self.close()
            raise

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
