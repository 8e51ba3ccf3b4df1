"""The ways of notices on each database, after the commit, to executors in other processes."""

from types import ModuleType
from typing import Final, Protocol

from django.db import connections

from django_delayed_tasks import clock
from django_delayed_tasks.store.notices import Notice, mysql, postgres, sqlite
from django_delayed_tasks.store.sql.dialects import dialect_of
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

SILENCE: Final = 60.0
"""Seconds for which no notice is sent after one has failed: the database may not allow it."""
_CHANNELS: Final[dict[str, ModuleType]] = {"postgres": postgres, "mysql": mysql, "sqlite": sqlite}
_silent_until: dict[str, float] = {}


class Subscription(Protocol):
    """Receives notices; ``fileno()`` is readable when there may be one."""

    is_broadcast: bool
    """Whether all executors hear of a task; otherwise one of them does."""

    def fileno(self) -> int: ...

    def receive(self) -> list[Notice]:
        """Return the notices that have arrived, none if one may have been lost.

        Raises:
            Error: of the driver: the connection is lost.
        """

    def close(self) -> None: ...


def _channel(alias: str) -> ModuleType | None:
    return _CHANNELS.get(dialect_of(connections[alias]).notices)


def can_notify(alias: str) -> bool:
    """Return whether this database delivers notices."""
    channel = _channel(alias)
    return channel is not None and channel.can_notify(alias)


def can_listen(alias: str) -> bool:
    """Return whether this process can receive notices."""
    channel = _channel(alias)
    return channel is not None and channel.can_listen(alias)


def subscribe(alias: str, executor: str) -> Subscription:
    """Begin to listen for the executor of this name.

    Raises:
        CannotListen: no notices can arrive.
    """
    heard: Subscription = _CHANNELS[dialect_of(connections[alias]).notices].Subscription(alias, executor)
    return heard


def notify(alias: str, queue: str = "") -> None:
    """Send a notice, outside any transaction, that something was added; a failure is logged and not raised."""
    channel = _channel(alias)
    if channel is None or _silent_until.get(alias, 0.0) > clock.monotonic():
        return
    try:
        channel.notify(alias, queue)
    except Exception as error:  # also of a driver that lacks a method: what was added is committed
        _silent_until[alias] = clock.monotonic() + SILENCE
        logger.info("executors in other processes are not notified of new tasks and find them by polling: %s", error)
