"""How many threads will become free while the next claims are being made: for so many more tasks permits are taken."""

from typing import Final

from django_delayed_tasks import clock
from django_delayed_tasks.executor.held import Held

WINDOW: Final = 0.1
"""Seconds over which the rate of ended runs is averaged."""
CLAIMS: Final = 2
"""The number of claims for whose duration to hold tasks: with one, threads would have to wait for each next claim."""
_SHARE: Final = 0.3
"""The weight of the latest claim in the mean duration of claims."""


class Ahead:
    """The number of runs that are expected to end in threads during the next claims.

    It follows the rate at which runs have ended, of whatever code: a thread whose run is long does not count.
    """

    def __init__(self, held: Held) -> None:
        self._held = held
        self._seen = 0
        self._seen_at = clock.monotonic()
        self._rate = 0.0
        self._claim = 0.0

    def note_claim(self, seconds: float) -> None:
        """Note that tasks were claimed in ``seconds``."""
        self._claim += _SHARE * (seconds - self._claim)

    @property
    def ends(self) -> int:
        """The number of runs."""
        seen, now = self._held.work_done[0], clock.monotonic()
        if elapsed := now - self._seen_at:
            latest = (seen - self._seen) / elapsed
            self._rate += min(1.0, elapsed / WINDOW) * (latest - self._rate)
            self._seen, self._seen_at = seen, now
        return int(CLAIMS * self._rate * self._claim)
