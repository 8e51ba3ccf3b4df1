"""A thread that repeats one iteration and survives outages of the database."""

import logging
from collections.abc import Callable
from threading import Event, Thread

from django_delayed_tasks.executor.threads import connections
from django_delayed_tasks.executor.threads.backoff import Backoff
from django_delayed_tasks.executor.threads.busy import Busy

logger = logging.getLogger(__name__)


class Loop:
    """A thread that calls ``iterate()``, which returns how many seconds to sleep, until :meth:`stop`.

    Setting ``sleeper`` wakes it early. ``farewell()`` is called at the end, in the loop's thread. After an error
    ``recover()`` is called and the loop backs off; it never ends by itself.
    """

    def __init__(
        self,
        name: str,
        alias: str,
        iterate: Callable[[], float],
        sleeper: Event | None = None,
        recover: Callable[[], None] = lambda: None,
        farewell: Callable[[], None] = lambda: None,
    ) -> None:
        self._alias = alias
        self._iterate = iterate
        self._sleeper = sleeper or Event()
        self._recover = recover
        self._farewell = farewell
        self._stopped = Event()
        self._busy = Busy()
        self._backoff = Backoff()
        self._thread = Thread(target=self._repeat, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def name(self) -> str:
        """The name of the thread."""
        return self._thread.name

    @property
    def is_alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def busy_for(self) -> float:
        """Return how many seconds the current iteration has taken; 0 between two iterations."""
        return self._busy.seconds()

    def stop(self, timeout: float = 5.0) -> None:
        """End after the current iteration; wait up to ``timeout`` seconds for it."""
        self._stopped.set()
        self._sleeper.set()
        self._thread.join(timeout)

    def _repeat(self) -> None:
        with connections.of_thread(self._alias):
            while not self._stopped.is_set():
                self._sleep(self._attempt())
            self._say_farewell()

    def _say_farewell(self) -> None:
        try:
            self._farewell()
        except Exception as error:
            logger.warning("%s could not end gracefully: %s", self._thread.name, error)

    def _attempt(self) -> float:
        try:
            with self._busy:
                seconds = self._iterate()
        except BaseException as error:
            return self._failed(error)
        if self._backoff.succeeded():
            logger.warning("%s continues", self._thread.name)
        return seconds

    def _failed(self, error: BaseException) -> float:
        seconds = self._backoff.failed()
        if self._backoff.failures == 1:
            logger.warning("%s backs off: %s", self._thread.name, error, exc_info=error)
        try:
            connections.discard_unusable(self._alias)
            self._recover()
        except Exception:
            logger.exception("%s could not recover; it tries again", self._thread.name)
        return seconds

    def _sleep(self, seconds: float) -> None:
        # Cleared before the next iteration, so that an event during that iteration wakes the loop again.
        if seconds > 0 and not self._stopped.is_set():
            self._sleeper.wait(seconds)
        if not self._stopped.is_set():
            self._sleeper.clear()
