"""What an executor is told when it starts."""

import os
import socket
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from django_delayed_tasks import models
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidSetting

LONGEST_POLL = 86_400.0
_SUFFIX = 6
"""Room for the number that a supervisor puts behind a name."""
NAME_LENGTH = models.NAME_LENGTH - _SUFFIX


@dataclass(frozen=True, slots=True)
class ExecutorOptions:
    """Seconds where a duration is meant. ``queues`` None: all but ``exclude_queues``.

    ``drain``: end when nothing is due any more; ``max_tasks``: end after that many runs.
    """

    database: str = "default"
    threads: int = 8
    name: str = ""
    queues: tuple[str, ...] | None = None
    exclude_queues: tuple[str, ...] = ()
    poll_interval: float = 0.2
    heartbeat: float = 5.0
    lease: float = 15.0
    claim: str = "auto"
    batch_size: int = 100
    max_rescues: int = 3
    shutdown_timeout: float = 30.0
    keep_history: timedelta | None = field(default=timedelta(days=7))
    max_lost_threads: int = 8
    drain: bool = False
    max_tasks: int | None = None

    def serves(self, queue: str) -> bool:
        """Whether tasks of this queue are for this executor."""
        return queue not in self.exclude_queues and (self.queues is None or queue in self.queues)


def from_settings(**given: Any) -> ExecutorOptions:
    """The options of ``DELAYED_TASKS``, with those ``given`` (None: not given) instead.

    Raises:
        InvalidSetting: an option that does not exist, or a number that makes no sense.
    """
    options = ExecutorOptions(
        database=settings.DATABASE, threads=settings.THREADS, poll_interval=settings.POLL_INTERVAL,
        heartbeat=settings.HEARTBEAT, lease=settings.LEASE, claim=settings.CLAIM, batch_size=settings.BATCH_SIZE,
        max_rescues=settings.MAX_RESCUES, shutdown_timeout=settings.SHUTDOWN_TIMEOUT,
        keep_history=settings.KEEP_HISTORY, max_lost_threads=settings.MAX_LOST_THREADS,
        name=f"{socket.gethostname()}-{os.getpid()}",
    )  # fmt: skip
    try:
        options = replace(options, **{name: value for name, value in given.items() if value is not None})
    except TypeError as error:
        raise InvalidSetting(str(error)) from None
    _check(options)
    return options


def _check(options: ExecutorOptions) -> None:
    for name in ("threads", "batch_size", "max_tasks"):
        value = getattr(options, name)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise InvalidSetting(f"{name}={value!r}: must be an int of at least 1")
    if not 0 < options.poll_interval <= LONGEST_POLL:
        raise InvalidSetting(
            f"poll_interval={options.poll_interval!r}: must be seconds, above 0 and {LONGEST_POLL} at most"
        )
    if (
        not isinstance(options.name, str)
        or not 0 < len(options.name) <= NAME_LENGTH
        or options.name.strip() != options.name
    ):
        raise InvalidSetting(f"name={options.name!r}: must be a text of 1 to {NAME_LENGTH} characters")
    if options.lease <= 2 * options.heartbeat:
        raise InvalidSetting(f"lease={options.lease!r}: must be longer than two heartbeats ({options.heartbeat!r} s)")
