"""Hears from PostgreSQL that another process has added something due, and wakes the poller. Polling alone would do."""

import logging
import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import Final

from django_delayed_tasks import clock
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.threads.loop import Loop
from django_delayed_tasks.store.notices.postgres import Deaf, Ears, Notice, can_listen

logger = logging.getLogger(__name__)

SHORTEST_PAUSE: Final = 0.005
"""Seconds for which what comes is left to lie after something was heard: many notices are one."""
RATE: Final = 50.0
"""How often in a second all executors together are woken, in the long run."""
BURST: Final = 10.0
"""How often one of them is woken beyond that, after a quiet time."""
LASTING: Final = 60.0
"""Seconds that a session has to last for the next to be opened at once: a pooler may end each."""


DEAF: Final = 3600.0
"""Seconds before another session where a pooler passes nothing on: it may be configured otherwise by then."""

DEAF_NOTE: Final = (
    "the pooler before the database %r passes no notices on (transaction mode?): this executor finds tasks of other "
    "processes when it polls. Let it connect to the server itself, or set DELAYED_TASKS['NOTIFY'] to False."
)


class Pace:
    """When to hear what has come: not each of many notices at once.

    All executors hear of each task, and one of them claims it. So each has its share of a number of wakings that does
    not grow with the executors, nor with the tasks.
    """

    def __init__(self, executors: Callable[[], int]) -> None:
        """``executors()``: how many are alive."""
        self._executors = executors
        self._left = BURST
        self._counted = clock.monotonic()
        self._heard = float("-inf")

    def seconds_left(self) -> float:
        """Until it is worth listening."""
        now, rate = clock.monotonic(), RATE / max(1, self._executors())
        self._left = min(BURST, self._left + rate * (now - self._counted))
        self._counted = now
        return max(0.0, self._heard + SHORTEST_PAUSE - now, (1.0 - self._left) / rate)

    def note_hearing(self, is_waking: bool) -> None:
        """Something was heard just now, and the poller woken for it, or not."""
        self._heard = clock.monotonic()
        self._left -= is_waking


class Listener:
    """:meth:`listen` is one iteration of its loop; it waits for notices, for the end of a pause, or to be told to end.

    ``is_busy()`` tells whether the poller would claim nothing: it is then woken when runs end.
    """

    def __init__(
        self,
        options: ExecutorOptions,
        executors: Callable[[], int],
        is_busy: Callable[[], bool],
        wake: Callable[[], None],
    ) -> None:
        self._options = options
        self._pace = Pace(executors)
        self._is_busy = is_busy
        self._wake = wake
        self._ears: Ears | None = None
        self._opened = float("-inf")
        self._short_sessions = 0
        self._is_deaf = False
        self._ended = Event()

    def prepare(self) -> None:
        """The first call, before there is a thread."""
        self._selector = selectors.DefaultSelector()
        self._interrupted, self._interrupting = socket.socketpair()
        self._selector.register(self._interrupted, selectors.EVENT_READ)

    def listen(self) -> float:
        """Wait, and wake the poller if there is a reason to. Raises psycopg.Error when the connection is lost."""
        if self._ears is None:
            if not self._ended.wait(self.pause):
                return self._begin()
        elif seconds := self._pace.seconds_left():
            self._ended.wait(seconds)
        else:
            self._hear()
        return 0.0

    @property
    def pause(self) -> float:
        """Seconds before another session; longer each time that the last did not last."""
        return min(LASTING, 0.1 * 2**self._short_sessions) if self._short_sessions else 0.0

    def _begin(self) -> float:
        try:
            self._open()
        except Deaf:
            if not self._is_deaf:
                logger.warning(DEAF_NOTE, self._options.database)
            self._is_deaf = True
            return DEAF
        self._wake()  # what was said before was not heard
        return 0.0

    def _open(self) -> None:
        self._ears = Ears(self._options.database)
        self._selector.register(self._ears, selectors.EVENT_READ)
        self._opened = clock.monotonic()

    def _hear(self) -> None:
        for key, _ in self._selector.select():
            if isinstance(key.fileobj, Ears):
                is_waking = any(map(self._concerns, key.fileobj.hear())) and not self._is_busy()
                self._pace.note_hearing(is_waking)
                if is_waking:
                    self._wake()

    def _concerns(self, notice: Notice) -> bool:
        return not notice.is_own and (not notice.queue or self._options.serves(notice.queue))

    def recover(self) -> None:
        """After an error: the next iteration opens another connection."""
        ears, self._ears = self._ears, None
        if ears:
            is_short = clock.monotonic() - self._opened < LASTING
            self._short_sessions = min(self._short_sessions + 1, 10) if is_short else 0
            # Before it is closed: a closed one has no number any more.
            self._selector.unregister(ears)
            ears.close()

    def interrupt(self) -> None:
        """Let the present iteration end; any thread may ask for it."""
        self._ended.set()
        with suppress(OSError):
            self._interrupting.send(b".")

    def close(self) -> None:
        """The last call, of the thread that listens."""
        self.recover()
        self._selector.close()
        self._interrupted.close()
        self._interrupting.close()


class Listening(Loop):
    """The thread of a listener."""

    def __init__(self, listener: Listener, alias: str) -> None:
        super().__init__("listener", alias, listener.listen, recover=listener.recover, farewell=listener.close)
        self._listener = listener

    def start(self) -> None:
        """Begin."""
        self._listener.prepare()
        super().start()

    def stop(self, timeout: float = 5.0) -> None:
        """End now; waits for it."""
        self._stopped.set()
        self._listener.interrupt()
        super().stop(timeout)


def listening_for(
    options: ExecutorOptions, executors: Callable[[], int], is_busy: Callable[[], bool], wake: Callable[[], None]
) -> Listening | None:
    """What listens for this executor; None where there is nothing to be heard."""
    if not options.notify or options.drain or not can_listen(options.database):
        return None
    return Listening(Listener(options, executors, is_busy, wake), options.database)
