"""The options of an executor, with their checks."""

import os
import secrets
import socket
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from django_delayed_tasks import models
from django_delayed_tasks.conf import READERS, Reader, Values, number, settings
from django_delayed_tasks.exceptions import InvalidSetting, InvalidTask
from django_delayed_tasks.store.validation import valid_new_queue

NAME_LENGTH = models.NAME_LENGTH - 6
"""Characters of a name, to which a supervisor appends "-" and a number."""

_DEFAULTS = Values()


@dataclass(frozen=True, slots=True)
class ExecutorOptions:
    """The options of one executor; durations given as numbers are in seconds.

    ``queues``: None means all except ``exclude_queues``. ``drain``: end when no task is due any more. ``max_tasks``:
    end after that many runs. ``async_concurrency``: how many async runs there may be at a time, next to ``threads``.
    """

    database: str = _DEFAULTS.DATABASE
    threads: int = _DEFAULTS.THREADS
    name: str = ""
    queues: tuple[str, ...] | None = None
    exclude_queues: tuple[str, ...] = ()
    poll_interval: float = _DEFAULTS.POLL_INTERVAL
    heartbeat: float = _DEFAULTS.HEARTBEAT
    lease: float = _DEFAULTS.LEASE
    claim: str = _DEFAULTS.CLAIM
    batch_size: int = _DEFAULTS.BATCH_SIZE
    max_rescues: int = _DEFAULTS.MAX_RESCUES
    shutdown_timeout: float = _DEFAULTS.SHUTDOWN_TIMEOUT
    keep_history: timedelta | None = _DEFAULTS.KEEP_HISTORY
    once_retention: timedelta | None = _DEFAULTS.ONCE_RETENTION
    max_lost_threads: int = _DEFAULTS.MAX_LOST_THREADS
    notify: bool = _DEFAULTS.NOTIFY
    drain: bool = False
    max_tasks: int | None = None
    async_concurrency: int = _DEFAULTS.ASYNC_CONCURRENCY

    @property
    def ends_by_itself(self) -> bool:
        """Whether the executor ends by itself. Then one thread alone makes all claims, so that it can count them."""
        return self.drain or self.max_tasks is not None

    @property
    def serves_all(self) -> bool:
        """Whether this executor claims tasks of every queue."""
        return self.queues is None and not self.exclude_queues

    def serves(self, queue: str) -> bool:
        """Return whether this executor claims tasks of the queue."""
        return queue not in self.exclude_queues and (self.queues is None or queue in self.queues)


_NAMES = [one.name for one in fields(ExecutorOptions)]
_SETTINGS = {name: name.upper() for name in _NAMES if name.upper() in READERS}
"""The options that are settings as well, each with the key of its setting."""


def from_settings(**given: Any) -> ExecutorOptions:
    """Return the options of the setting ``DELAYED_TASKS``, overridden by those ``given`` that are not None.

    Raises:
        InvalidSetting: an option does not exist or has an invalid value.
    """
    chosen: dict[str, Any] = {"name": f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"}
    chosen |= {name: getattr(settings, key) for name, key in _SETTINGS.items()}
    chosen |= {name: value for name, value in given.items() if value is not None}
    if unknown := sorted(chosen.keys() - _NAMES):
        raise InvalidSetting(f"no such option: {', '.join(unknown)}; the options are {', '.join(_NAMES)}")
    options = ExecutorOptions(**chosen)
    _check(options)
    return options


def _check(options: ExecutorOptions) -> None:
    for name, key in _SETTINGS.items():
        _check_as(READERS[key], name, getattr(options, name))
    if options.max_tasks is not None:
        _check_as(number(1), "max_tasks", options.max_tasks)
    if options.lease <= 2 * options.heartbeat:
        raise InvalidSetting(f"lease={options.lease!r}: must be longer than two heartbeats of {options.heartbeat!r} s")
    for name in ("queues", "exclude_queues"):
        _check_queues(name, getattr(options, name))
    if options.queues and not any(map(options.serves, options.queues)):
        names = ", ".join(map(repr, options.queues))
        raise InvalidSetting(f"exclude_queues={options.exclude_queues!r}: leaves none of the queues to serve: {names}")
    _check_name(options.name)


def _check_as(reader: Reader, name: str, value: Any) -> None:
    try:
        reader(value)
    except ValueError as error:
        raise InvalidSetting(f"{name}={value!r}: {error}") from None


def _check_queues(name: str, queues: Any) -> None:
    if queues is None and name == "queues":
        return
    if isinstance(queues, str) or not all(isinstance(queue, str) and queue for queue in queues):
        raise InvalidSetting(f"{name}={queues!r}: must be a tuple of queue names")
    for queue in queues:
        try:
            valid_new_queue(queue)
        except InvalidTask as error:  # no task can have such a queue
            raise InvalidSetting(f"{name}: {error}") from None


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= NAME_LENGTH or name.strip() != name:
        raise InvalidSetting(f"name={name!r}: must be a string of 1 to {NAME_LENGTH} printable characters")
