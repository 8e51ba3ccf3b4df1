"""A thread that repeats one iteration and survives outages of the database; its pauses, and what it waits for."""

import random
from collections.abc import Callable
from threading import Event, Thread

from django_delayed_tasks import clock
from django_delayed_tasks.store.sql.kept_connections import of_thread
from django_delayed_tasks.store.sql.transactions import discard_after
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

TICK = 0.2
"""Seconds between two iterations of the watchdog, and of housekeeping at most: how late either may notice something."""


class Backoff:
    """Pauses that double from ``first`` to ``longest`` seconds; each is shortened by a random part, half at most."""

    def __init__(self, first: float = 0.05, longest: float = 5.0) -> None:
        self._first = first
        self._longest = longest
        self.failures = 0

    def succeeded(self) -> bool:
        """Note a success; return whether the attempt before it had failed."""
        failed, self.failures = self.failures, 0
        return failed > 0

    def failed(self) -> float:
        """Note a failure; return the seconds to wait."""
        self.failures += 1
        span: float = min(self._longest, self._first * 2 ** min(self.failures - 1, 20))
        return span * random.uniform(0.5, 1.0)

    def wait(self, stop: Event) -> None:
        """Note a failure and wait, at most until ``stop`` is set."""
        stop.wait(self.failed())


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
        self._began: float | None = None
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
        began = self._began
        return 0.0 if began is None else clock.monotonic() - began

    def stop(self, timeout: float = 5.0) -> None:
        """End after the current iteration; wait up to ``timeout`` seconds for it."""
        self._stopped.set()
        self._sleeper.set()
        self._thread.join(timeout)

    def _repeat(self) -> None:
        with of_thread(self._alias) as own:
            own.begin_in_one_statement()
            while not self._stopped.is_set():
                self._sleep(self._attempt())
            self._say_farewell()

    def _say_farewell(self) -> None:
        try:
            self._farewell()
        except Exception as error:
            logger.warning("%s could not end gracefully: %s", self._thread.name, error)

    def _attempt(self) -> float:
        self._began = clock.monotonic()
        try:
            seconds = self._iterate()
        except BaseException as error:
            seconds = self._failed(error)
        else:
            if self._backoff.succeeded():
                logger.warning("%s continues", self._thread.name)
        self._began = None
        return seconds

    def _failed(self, error: BaseException) -> float:
        seconds = self._backoff.failed()
        if self._backoff.failures == 1:
            logger.warning("%s backs off: %s", self._thread.name, error, exc_info=error)
        try:
            discard_after(error, self._alias)
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
