"""How long somebody in line waits before he looks again."""

import random
import time
from typing import Final

from django_delayed_tasks import clock

SHORTEST: Final = 0.02
LONGEST: Final = 1.0
AT_THE_HEAD: Final = (0.1, 0.25)
"""The longest pause of the first in line: this at the beginning, growing to that while nothing happens."""
GRACE: Final = 0.4
"""Seconds that a free resource is left to those who are ahead; more than any of their pauses."""
PART: Final = 0.2
"""Of the time until it should be our turn: so much later than possible it is noticed, at most."""


class Pauses:
    """Pauses that suit the speed at which the line moves: who is far back looks seldom."""

    def __init__(self) -> None:
        self._began = clock.monotonic()
        self._first: int | None = None

    def sleep(self, ahead: int, is_something_free: bool, deadline: float | None) -> None:
        """Wait, but not beyond the deadline."""
        seconds = self.seconds(ahead, is_something_free)
        if deadline is not None:
            seconds = min(seconds, deadline - clock.monotonic())
        if seconds > 0:
            time.sleep(seconds)

    def seconds(self, ahead: int, is_something_free: bool) -> float:
        """The next pause. If something is free that others have the first right to, look soon whether they live."""
        self._first = ahead if self._first is None else self._first
        waited = clock.monotonic() - self._began
        turn = (ahead + 1) * waited / (max(self._first - ahead, 0) + 1)
        head = min(max(AT_THE_HEAD[0], waited / 100), AT_THE_HEAD[1])
        longest = GRACE / 3 if is_something_free else min(head * (ahead + 1), LONGEST)
        return min(max(PART * turn, SHORTEST), longest) * random.uniform(0.8, 1.0)
