"""The options of an executor, with their checks."""

import os
import secrets
import socket
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any

from django_delayed_tasks import models
from django_delayed_tasks.conf import READERS, settings
from django_delayed_tasks.exceptions import InvalidSetting, InvalidTask
from django_delayed_tasks.store.validation import valid_new_queue

LONGEST_POLL = 86_400.0
_SUFFIX = 6
"""Characters reserved for the number that a supervisor appends to a name."""
NAME_LENGTH = models.NAME_LENGTH - _SUFFIX

_LIKE_SETTINGS = (
    "database", "threads", "poll_interval", "heartbeat", "lease", "claim", "batch_size", "max_rescues",
    "shutdown_timeout", "keep_history", "once_retention", "max_lost_threads", "notify", "async_concurrency",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExecutorOptions:
    """The options of one executor; durations given as numbers are in seconds.

    ``queues``: None means all except ``exclude_queues``. ``drain``: end when no task is due any more. ``max_tasks``:
    end after that many runs. ``async_concurrency``: how many async runs there may be at a time, next to ``threads``.
    """

    database: str = "default"
    threads: int = 8
    name: str = ""
    queues: tuple[str, ...] | None = None
    exclude_queues: tuple[str, ...] = ()
    poll_interval: float = 0.2
    heartbeat: float = 3.0
    lease: float = 10.0
    claim: str = "auto"
    batch_size: int = 300
    max_rescues: int = 3
    shutdown_timeout: float = 30.0
    keep_history: timedelta | None = field(default=timedelta(days=7))
    once_retention: timedelta | None = None
    max_lost_threads: int = 8
    notify: bool = True
    drain: bool = False
    max_tasks: int | None = None
    async_concurrency: int = 100

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


def from_settings(**given: Any) -> ExecutorOptions:
    """Return the options of the setting ``DELAYED_TASKS``, overridden by those ``given`` that are not None.

    Raises:
        InvalidSetting: an option does not exist or has an invalid value.
    """
    options = ExecutorOptions(
        database=settings.DATABASE, threads=settings.THREADS, poll_interval=settings.POLL_INTERVAL,
        heartbeat=settings.HEARTBEAT, lease=settings.LEASE, claim=settings.CLAIM, batch_size=settings.BATCH_SIZE,
        max_rescues=settings.MAX_RESCUES, shutdown_timeout=settings.SHUTDOWN_TIMEOUT,
        keep_history=settings.KEEP_HISTORY, once_retention=settings.ONCE_RETENTION,
        max_lost_threads=settings.MAX_LOST_THREADS,
        notify=settings.NOTIFY, async_concurrency=settings.ASYNC_CONCURRENCY,
        name=f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}",
    )  # fmt: skip
    try:
        options = replace(options, **{name: value for name, value in given.items() if value is not None})
    except TypeError:
        known = [one.name for one in fields(ExecutorOptions)]
        unknown = ", ".join(sorted(set(given) - set(known)))
        raise InvalidSetting(f"no such option: {unknown}; the options are {', '.join(known)}") from None
    _check(options)
    return options


def _check(options: ExecutorOptions) -> None:
    for name in _LIKE_SETTINGS:
        _check_as(name.upper(), name, getattr(options, name))
    if options.max_tasks is not None and (not isinstance(options.max_tasks, int) or options.max_tasks < 1):
        raise InvalidSetting(f"max_tasks={options.max_tasks!r}: expected an int of at least 1")
    if options.poll_interval > LONGEST_POLL:
        raise InvalidSetting(f"poll_interval={options.poll_interval!r}: must be {LONGEST_POLL} seconds at most")
    if options.lease <= 2 * options.heartbeat:
        raise InvalidSetting(f"lease={options.lease!r}: must be longer than two heartbeats of {options.heartbeat!r} s")
    for name in ("queues", "exclude_queues"):
        _check_queues(name, getattr(options, name))
    if options.queues and not any(map(options.serves, options.queues)):
        names = ", ".join(map(repr, options.queues))
        raise InvalidSetting(f"exclude_queues={options.exclude_queues!r}: leaves none of the queues to serve: {names}")
    _check_name(options.name)


def _check_as(key: str, name: str, value: Any) -> None:
    try:
        READERS[key](value)
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
