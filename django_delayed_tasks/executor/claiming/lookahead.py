"""Claims a moment before the time, as long as a claim takes, so that a start is not late by it; nor ever early.

What is claimed so is held by the thread that will run it until its moment has come by the database's clock.
"""

import time
from collections import deque
from datetime import timedelta
from typing import Final

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, claimable_at, hold_until, not_before

LONGEST: Final = 0.02
"""Seconds. A task that is claimed counts as one that runs: whoever cancels it, or gives it another time, comes late."""
FIRST: Final = 0.002
"""Seconds that either statement is taken to need before one was measured."""
MARGIN: Final = 0.001
"""Seconds for a thread to wake up in, twice."""
REMEMBERED: Final = 100
"""Statements; the slowest of them counts: one task in a hundred may be late by what it does not know of."""


class Lookahead:
    """How far to look ahead, from how long the statements of the poller took of late."""

    def __init__(self, database_clock: clock.DatabaseClock) -> None:
        self._clock = database_clock
        self._readings = deque([FIRST], maxlen=REMEMBERED)
        self._claims = deque([FIRST], maxlen=REMEMBERED)

    def note_reading(self, seconds: float) -> None:
        """The agenda was read in so many seconds."""
        self._readings.append(seconds)

    def note_claim(self, seconds: float) -> None:
        """Tasks were claimed in so many seconds."""
        self._claims.append(seconds)

    @property
    def length(self) -> timedelta:
        """How long before its time a task may be claimed: enough to read the agenda once more, and claim."""
        return timedelta(seconds=min(LONGEST, max(self._readings) + max(self._claims) + MARGIN))

    def mark(self, tasks: list[ClaimedTask]) -> None:
        """These were claimed ahead: none of them starts before its time."""
        for task in tasks:
            hold_until(task, claimable_at(task))

    def hold(self, task: ClaimedTask) -> bool:
        """Wait for the time of a task that was claimed ahead; False if it does not come, the clock having been set."""
        moment = not_before(task)
        if moment is None:
            return True
        deadline = clock.monotonic() + 2 * LONGEST
        while (seconds := (moment - self._clock.now()).total_seconds()) > 0:
            if clock.monotonic() > deadline:
                return False
            time.sleep(min(seconds, LONGEST))
        return True
