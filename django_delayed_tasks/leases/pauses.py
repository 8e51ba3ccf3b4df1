"""The pauses between two looks of a contender in the wait queue."""

import random
from threading import Event
from typing import Final

from django_delayed_tasks import clock

SHORTEST: Final = 0.02
LONGEST: Final = 1.0
AT_THE_HEAD: Final = (0.1, 0.2)
"""The longest pause, in seconds, of the first in the queue: it grows from the first value to the second."""
GRACE: Final = 0.3
"""Seconds for which a free resource is reserved for contenders ahead; more than any pause of the first one."""
SHARE_OF_TURN: Final = 0.2
"""A pause is this part of the time until this contender is expected to be first, by the queue's speed so far ..."""
SHARE_OF_WAIT: Final = 0.3
"""... and at most this part of the time waited so far, which bounds the delay in noticing an unexpected release."""


class Pauses:
    """Pauses that adapt to the queue's speed: a contender that is far back, or has waited for long, looks rarely."""

    def __init__(self) -> None:
        self._began = clock.monotonic()
        self._first: int | None = None
        self.woken = Event()
        """Set when a resource was given back in this process: the contender then looks at once."""

    def sleep(self, ahead: int, is_something_free: bool, deadline: float | None) -> None:
        """Wait for the next pause, but not beyond the deadline."""
        self.sleep_for(self.seconds(ahead, is_something_free), deadline)

    def sleep_for(self, seconds: float, deadline: float | None) -> None:
        """Wait for this many seconds, but not beyond the deadline."""
        if deadline is not None:
            seconds = min(seconds, deadline - clock.monotonic())
        if seconds > 0:
            self.woken.wait(seconds)
        self.woken.clear()

    def seconds(self, ahead: int, is_something_free: bool) -> float:
        """Return the next pause in seconds; short if a resource is free, since the contenders ahead may have died."""
        self._first = ahead if self._first is None else self._first
        waited = clock.monotonic() - self._began
        turn = (ahead + 1) * waited / (max(self._first - ahead, 0) + 1)
        head = min(max(AT_THE_HEAD[0], waited / 100), AT_THE_HEAD[1])
        longest = GRACE / 3 if is_something_free else min(head * (ahead + 1), LONGEST)
        pause = min(SHARE_OF_TURN * turn, SHARE_OF_WAIT * waited, longest)
        return max(pause, SHORTEST) * random.uniform(0.8, 1.0)
