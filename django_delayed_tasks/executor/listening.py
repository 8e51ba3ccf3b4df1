"""Hears from PostgreSQL that another process has added something due, and wakes the poller. Polling alone would do."""

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from django_delayed_tasks import clock
from django_delayed_tasks.executor.loops import Loop
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.store.notifying import Ears, Notice, can_listen

SHORTEST_PAUSE: Final = 0.005
"""Seconds between two wakings; more, up to a poll interval, while the others are quicker to claim."""
NEVER: Final = 3600.0


class Pace:
    """When to wake the poller next, if there is a reason to: not for each of many notices.

    A pause grows as long as what the poller was woken for had been claimed by others. So executors that get nothing
    of what they are all told of look hardly more often than without being told.
    """

    def __init__(self, longest: float, claimed: Callable[[], int]) -> None:
        """``claimed()`` changes with every claim."""
        self._longest = max(longest, SHORTEST_PAUSE)
        self._claimed = claimed
        self._seen = claimed()
        self._pause = SHORTEST_PAUSE
        self._last = float("-inf")
        self.has_reason = False

    def seconds_left(self) -> float:
        """Until the next waking; NEVER without a reason, 0 when it is time."""
        return max(0.0, self._last + self._pause - clock.monotonic()) if self.has_reason else NEVER

    def note_waking(self) -> None:
        """The poller was woken."""
        claimed = self._claimed()
        self._pause = SHORTEST_PAUSE if claimed != self._seen else min(2 * self._pause, self._longest)
        self._seen, self._last, self.has_reason = claimed, clock.monotonic(), False


class Listener:
    """:meth:`listen` is one iteration of its loop; it waits for notices, for the end of a pause, or to be told to end.

    ``is_busy()`` tells whether the poller would claim nothing: it is then woken when runs end.
    """

    def __init__(
        self,
        options: ExecutorOptions,
        claimed: Callable[[], int],
        is_busy: Callable[[], bool],
        wake: Callable[[], None],
    ) -> None:
        self._options = options
        self._pace = Pace(options.poll_interval, claimed)
        self._is_busy = is_busy
        self._wake = wake
        self._ears: Ears | None = None

    def prepare(self) -> None:
        """The first call, before there is a thread."""
        self._selector = selectors.DefaultSelector()
        self._interrupted, self._interrupting = socket.socketpair()
        self._selector.register(self._interrupted, selectors.EVENT_READ)

    def listen(self) -> float:
        """Wait, and wake the poller if there is a reason to. Raises psycopg.Error when the connection is lost."""
        if self._ears is None:
            self._open()
        for key, _ in self._selector.select(self._pace.seconds_left()):
            if isinstance(key.fileobj, Ears):
                self._pace.has_reason |= any(map(self._concerns, key.fileobj.hear()))
        if not self._pace.seconds_left():
            self._pace.note_waking()
            if not self._is_busy():
                self._wake()
        return 0.0

    def _open(self) -> None:
        self._ears = Ears(self._options.database)
        self._selector.register(self._ears, selectors.EVENT_READ)
        self._pace.has_reason = True  # what was said before was not heard

    def _concerns(self, notice: Notice) -> bool:
        return not notice.is_own and (not notice.queue or self._options.serves(notice.queue))

    def recover(self) -> None:
        """After an error: the next iteration opens another connection."""
        ears, self._ears = self._ears, None
        if ears:
            # Before it is closed: a closed one has no number any more.
            self._selector.unregister(ears)
            ears.close()

    def interrupt(self) -> None:
        """Let the present iteration end; any thread may ask for it."""
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
    options: ExecutorOptions, claimed: Callable[[], int], is_busy: Callable[[], bool], wake: Callable[[], None]
) -> Listening | None:
    """What listens for this executor; None where there is nothing to be heard."""
    if not options.notify or options.drain or not can_listen(options.database):
        return None
    return Listening(Listener(options, claimed, is_busy, wake), options.database)
