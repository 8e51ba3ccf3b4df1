"""When the whole agenda is read, and not only what is known of it.

A sweep is a reading of the whole agenda. It steps over finished tasks that an old snapshot keeps the database from
clearing away: where there are many it is slow, and rare.
"""

from django_delayed_tasks import clock

QUICK = 0.003
"""Seconds. As long as sweeps take hardly longer than the quickest did, every reading is one."""
SHARE = 0.01
"""The part of the time that slow sweeps may take."""
RAREST_IDLE, RAREST_BUSY = 2.0, 10.0
"""Seconds between two sweeps, however slow they are: when nothing was due, and while others wait to be claimed."""


class Sweeps:
    """How long the last ones took, and when the next is due."""

    def __init__(self) -> None:
        self.is_idle = False
        """Whether nothing was due, the last time somebody looked."""
        self._last = float("-inf")
        self._took = (0.0, 0.0)
        self._quickest = float("inf")

    def note(self, began: float, took: float) -> None:
        """One was made: the monotonic second of its begin, and its length."""
        self._last, self._took = began, (self._took[1], took)
        self._quickest = min(self._quickest, took)

    def seconds_until_next(self) -> float:
        """How long no sweep is worth its time; 0 when the next reading should be one."""
        # The quicker of two: one that had to wait for something else says nothing.
        excess = min(self._took) - self._quickest
        if excess < QUICK:
            return 0.0
        pause = min(excess / SHARE, RAREST_IDLE if self.is_idle else RAREST_BUSY)
        return max(0.0, self._last + pause - clock.monotonic())
