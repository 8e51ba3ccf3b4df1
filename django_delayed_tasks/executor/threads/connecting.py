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

    Attributes:
        threads: the number of worker threads that wait.
        is_loop_waiting: whether coroutines would have no connection.
    """

    def __init__(self, *sleepers: Event) -> None:
        """``sleepers`` are woken when one of them has a connection: it may run tasks again."""
        self._sleepers = sleepers
        self._lock = Lock()
        self._waiting: set[str] = set()
        self.threads = 0
        self.is_loop_waiting = False

    def begin(self, name: str, error: Exception) -> None:
        """Note that this thread waits for a connection because of ``error``."""
        with self._lock:
            is_first = not self._waiting
            self._waiting.add(name)
            self._count()
        if is_first:
            text = "%s has no connection: its task is released, and it takes no other one until it has one: %s"
            logger.warning(text, name, error)

    def end(self, name: str) -> None:
        """Note that this thread waits no longer."""
        with self._lock:
            is_last = self._waiting == {name}
            self._waiting.discard(name)
            self._count()
        if is_last:
            logger.warning("all threads that waited for a connection continue")
        for sleeper in self._sleepers:
            sleeper.set()

    def _count(self) -> None:
        self.is_loop_waiting = EVENT_LOOP in self._waiting
        self.threads = len(self._waiting) - self.is_loop_waiting
