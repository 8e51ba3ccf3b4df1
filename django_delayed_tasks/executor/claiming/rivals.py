"""Lost races: other executors claimed all rows that this one had just read."""

import random
from typing import Final

PAUSE: Final = 0.02
"""Seconds at most before another attempt after a lost race; random, so that the executors do not collide again."""
MOST: Final = 10
"""Lost races in a row after which this executor no longer expects tasks to remain for it."""


class Rivals:
    """The lost races of recent polls, and when to poll again after them."""

    def __init__(self) -> None:
        self._were_quicker = False
        self._times = 0

    def begin(self) -> None:
        """Begin a poll."""
        self._were_quicker = False

    def were_quicker(self) -> None:
        """Note that other executors took all rows that a claim of this poll had read."""
        self._were_quicker = True

    def were_slower(self) -> None:
        """Note that a claim of this poll won tasks."""
        self._times = 0

    def note(self, claimed: int) -> None:
        """Note how many tasks the whole poll claimed."""
        self._times = self._times + 1 if self._were_quicker and not claimed else 0

    @property
    def may_have_left_some(self) -> bool:
        """Whether due tasks may remain after a lost race."""
        return 0 < self._times <= MOST

    def pause(self) -> float:
        """Return the seconds until another attempt; infinity if none is needed."""
        return random.uniform(0, PAUSE) if self.may_have_left_some else float("inf")
