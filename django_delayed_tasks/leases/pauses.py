"""How long somebody in line waits before he looks again."""

import random
from threading import Event
from typing import Final

from django_delayed_tasks import clock

SHORTEST: Final = 0.02
LONGEST: Final = 1.0
AT_THE_HEAD: Final = (0.1, 0.2)
"""The longest pause of the first in line: this at the beginning, growing to that while nothing happens."""
GRACE: Final = 0.3
"""Seconds that a free resource is left to those who are ahead; more than any pause of the first."""
OF_THE_TURN: Final = 0.2
"""A pause is this part of the time until it should be our turn, by the speed of the line so far ..."""
OF_THE_PAST: Final = 0.3
"""... and no more than this part of the time since we came: what comes unexpectedly is noticed so much later."""


class Pauses:
    """Pauses that suit the speed at which the line moves: who is far back, or waits for long, looks seldom."""

    def __init__(self) -> None:
        self._began = clock.monotonic()
        self._first: int | None = None
        self.woken = Event()
        """Set when something was given back in this process: look at once."""

    def sleep(self, ahead: int, is_something_free: bool, deadline: float | None) -> None:
        """Wait, but not beyond the deadline."""
        self.sleep_for(self.seconds(ahead, is_something_free), deadline)

    def sleep_for(self, seconds: float, deadline: float | None) -> None:
        """Wait so long, but not beyond the deadline."""
        if deadline is not None:
            seconds = min(seconds, deadline - clock.monotonic())
        if seconds > 0:
            self.woken.wait(seconds)
        self.woken.clear()

    def seconds(self, ahead: int, is_something_free: bool) -> float:
        """The next pause. If something is free that others have the first right to, look soon whether they live."""
        self._first = ahead if self._first is None else self._first
        waited = clock.monotonic() - self._began
        turn = (ahead + 1) * waited / (max(self._first - ahead, 0) + 1)
        head = min(max(AT_THE_HEAD[0], waited / 100), AT_THE_HEAD[1])
        longest = GRACE / 3 if is_something_free else min(head * (ahead + 1), LONGEST)
        pause = min(OF_THE_TURN * turn, OF_THE_PAST * waited, longest)
        return max(pause, SHORTEST) * random.uniform(0.8, 1.0)
