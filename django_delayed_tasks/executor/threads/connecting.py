"""Threads that cannot open a connection: a run that cannot connect has not started, and is not to be tried for now."""

from threading import Event, Lock
from typing import Final

from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

EVENT_LOOP: Final = "the event loop"
"""Stands for the thread that makes the queries of coroutines."""


class Connecting:
    """The threads of an executor that wait for a connection to run tasks with; thread-safe.

    The log says when the first of them begins to wait, and when the last one has ended.
    """

    def __init__(self, *sleepers: Event) -> None:
        """``sleepers`` are woken when one of them has a connection: it may run tasks again."""
        self._sleepers = sleepers
        self._lock = Lock()
        self._waiting: set[str] = set()

    def begin(self, name: str, error: Exception) -> None:
        """Note that this thread waits for a connection because of ``error``."""
        with self._lock:
            is_first = not self._waiting
            self._waiting.add(name)
        if is_first:
            text = "%s has no connection: its task is released, and it takes no other one until it has one: %s"
            logger.warning(text, name, error)

    def end(self, name: str) -> None:
        """Note that this thread waits no longer."""
        with self._lock:
            is_last = self._waiting == {name}
            self._waiting.discard(name)
        if is_last:
            logger.warning("all threads that waited for a connection continue")
        for sleeper in self._sleepers:
            sleeper.set()

    @property
    def threads(self) -> int:
        """The number of worker threads that wait."""
        return len(self._waiting) - (EVENT_LOOP in self._waiting) if self._waiting else 0

    @property
    def is_loop_waiting(self) -> bool:
        """Whether coroutines would have no connection."""
        return EVENT_LOOP in self._waiting
