"""Listens to notices that another process has added a due task, and wakes the poller.

Without it the poller finds the same tasks, at its next poll.
"""

import selectors
import socket
from contextlib import suppress
from threading import Event
from typing import Final

from django_delayed_tasks import clock
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.capacity import Capacity
from django_delayed_tasks.executor.threads.handover import hand_over
from django_delayed_tasks.executor.threads.loop import Loop
from django_delayed_tasks.store.notices import CannotListen, Notice
from django_delayed_tasks.store.notices.channels import SILENCE, Subscription, can_listen, subscribe
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

MIN_PAUSE: Final = 0.005
"""Seconds to wait after a notice before hearing the next: notices that arrive meanwhile count as one."""
RATE: Final = 50.0
"""Wakings per second, in the long run, of all executors together."""
BURST: Final = 10.0
"""Additional wakings of one executor after a quiet time."""
LOOK_EVERY: Final = 5.0
"""Seconds after which the listener looks whether other connections of this process have been lost meanwhile."""
LASTING: Final = SILENCE
"""Seconds that a session must last for the next one to be opened at once: a pooler may end every session."""

NO_NOTICES: Final = (
    "this executor finds tasks that other processes add to %r only when it polls: %s. "
    "To do without notices, set DELAYED_TASKS['NOTIFY'] to False."
)


class Pace:
    """A token bucket that limits how often notices wake the poller.

    Where all executors hear of each task, one of them claims it. So those that hear share a number of wakings per
    second that grows neither with the number of executors nor with the number of tasks.
    """

    def __init__(self) -> None:
        self._left = BURST
        self._counted = clock.monotonic()
        self._heard = float("-inf")

    def seconds_left(self, listeners: int) -> float:
        """Return the seconds until it is worth listening again, if ``listeners`` executors hear each notice."""
        now, rate = clock.monotonic(), RATE / listeners
        self._left = min(BURST, self._left + rate * (now - self._counted))
        self._counted = now
        return max(0.0, self._heard + MIN_PAUSE - now, (1.0 - self._left) / rate)

    def note_hearing(self, is_waking: bool) -> None:
        """Note that notices were heard just now, and whether the poller was woken for them."""
        self._heard = clock.monotonic()
        self._left -= is_waking


class Listener:
    """Listens in a loop of its own; :meth:`listen` is one iteration.

    An iteration waits for notices, for the end of a pause, or for :meth:`interrupt`. While the poller would claim
    nothing, it is woken when runs end, and not by notices.
    """

    def __init__(self, options: ExecutorOptions, peers: Peers, capacity: Capacity) -> None:
        self._options = options
        self._peers = peers
        self._pace = Pace()
        self._capacity = capacity
        self._subscription: Subscription | None = None
        self._opened = float("-inf")
        self._losses = 0
        self._short_sessions = 0
        self._has_said_why = False
        self._ended = Event()

    def prepare(self) -> None:
        """Open what the listener needs; must be called first, before its thread starts."""
        self._selector = selectors.DefaultSelector()
        self._interrupted, self._interrupting = socket.socketpair()
        self._selector.register(self._interrupted, selectors.EVENT_READ)

    def listen(self) -> float:
        """Wait for notices and wake the poller if one concerns it; return the seconds until the next iteration.

        Raises:
            Exception: of the driver: the connection is lost.
        """
        if self._subscription is None:
            if not self._ended.wait(self.pause):
                return self._begin()
        elif self._may_be_lost:
            self._close()
            return self._begin()
        elif seconds := self._pace.seconds_left(self._peers.executors if self._subscription.is_broadcast else 1):
            self._ended.wait(seconds)
        else:
            self._receive(self._subscription)
        return 0.0

    @property
    def _may_be_lost(self) -> bool:
        """Whether other connections have been lost: this one does not notice that its server was demoted."""
        return self._losses != kept_connections.losses and clock.monotonic() - self._opened > LOOK_EVERY

    @property
    def pause(self) -> float:
        """Seconds before another session; they double with each session that was too short."""
        return min(LASTING, 0.1 * 2**self._short_sessions) if self._short_sessions else 0.0

    def _begin(self) -> float:
        try:
            self._open()
        except CannotListen as reason:
            if not self._has_said_why:
                logger.warning(NO_NOTICES, self._options.database, reason)
            self._has_said_why = True
            return 3600.0  # the configuration may have changed by then
        self._capacity.plain.wake.set()  # notices sent before the session began were not heard
        return 0.0

    def _open(self) -> None:
        losses = kept_connections.losses
        self._subscription = subscribe(self._options.database, self._options.name)
        self._selector.register(self._subscription, selectors.EVENT_READ)
        self._losses = losses
        self._opened = clock.monotonic()

    def _receive(self, own: Subscription) -> None:
        for key, _ in self._selector.select(LOOK_EVERY):
            if key.fileobj is own:
                heard = own.receive()
                is_waking = (not heard or any(map(self._concerns, heard))) and self._capacity.has_room
                if is_waking:
                    self._capacity.plain.wake.set()
                    hand_over()
                self._pace.note_hearing(is_waking)

    def _concerns(self, notice: Notice) -> bool:
        return not notice.is_own and (not notice.queue or self._options.serves(notice.queue))

    def recover(self) -> None:
        """Close the connection after an error; the next iteration opens another one."""
        if self._subscription:
            is_short = clock.monotonic() - self._opened < LASTING
            self._short_sessions = min(self._short_sessions + 1, 10) if is_short else 0
            self._close()

    def _close(self) -> None:
        lost, self._subscription = self._subscription, None
        if lost:
            # Before it is closed: a closed connection has no file descriptor.
            self._selector.unregister(lost)
            lost.close()

    def interrupt(self) -> None:
        """End the current iteration; may be called from any thread."""
        self._ended.set()
        with suppress(OSError):
            self._interrupting.send(b".")

    def close(self) -> None:
        """Close everything; must be called last, in the listening thread."""
        self.recover()
        self._selector.close()
        self._interrupted.close()
        self._interrupting.close()


class Listening(Loop):
    """The loop and the thread of a listener."""

    def __init__(self, listener: Listener, alias: str) -> None:
        super().__init__("listener", alias, listener.listen, recover=listener.recover, farewell=listener.close)
        self._listener = listener

    def start(self) -> None:
        """Start the thread."""
        self._listener.prepare()
        super().start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop at once; wait up to ``timeout`` seconds for the thread to end."""
        self._stopped.set()
        self._listener.interrupt()
        super().stop(timeout)


def listening_for(options: ExecutorOptions, peers: Peers, capacity: Capacity) -> Listening | None:
    """Return the listener's loop for an executor with these options; None where there are no notices to hear."""
    if not options.notify or options.drain or not can_listen(options.database):
        return None
    return Listening(Listener(options, peers, capacity), options.database)
