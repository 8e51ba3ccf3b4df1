"""Other executors that were quicker: what this one read they have claimed."""

import random
from typing import Final

PAUSE: Final = 0.02
"""Seconds, at most, before another try when others took all that this one read; at random, so that they part."""
MOST: Final = 10
"""Polls in a row that end so; after that it is not believed any more that there is something for this one."""


class Rivals:
    """Whether polls that gave nothing did so because others took it all, and when to look again then."""

    def __init__(self) -> None:
        self._were_quicker = False
        self._times = 0

    def begin(self) -> None:
        """A poll begins."""
        self._were_quicker = False

    def were_quicker(self) -> None:
        """With all that a claim of this poll had read."""
        self._were_quicker = True

    def were_slower(self) -> None:
        """A claim of this poll has won something."""
        self._times = 0

    def note(self, claimed: int) -> None:
        """All in all this poll has claimed so many."""
        self._times = self._times + 1 if self._were_quicker and not claimed else 0

    @property
    def may_have_left_some(self) -> bool:
        """Whether there may be more that is due: nothing says that they took that, too."""
        return 0 < self._times <= MOST

    def pause(self) -> float:
        """Seconds until another try; for ever when there need not be one."""
        return random.uniform(0, PAUSE) if self.may_have_left_some else float("inf")
