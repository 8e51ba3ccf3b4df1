"""The time before they are due at which tasks are claimed, so that they start on time."""

from collections import deque
from datetime import timedelta
from typing import Final

from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.running.worker import MAX_HOLD
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, claimable_at, hold_until

MARGIN: Final = 0.001
"""Seconds allowed for two threads to wake up."""
REMEMBERED: Final = 100
"""Statements that are remembered; the slowest of them counts, so about one task in a hundred may still be late."""


class Lookahead:
    """The time before they are due at which to claim tasks: as long as a claim takes, so that their runs start on time.

    No run starts early: the thread that will run such a task holds it until it is due by the database's clock. See
    docs/decisions/0010-start-on-time.md.
    """

    def __init__(self, options: ExecutorOptions) -> None:
        self._is_drain = options.drain
        self._readings: deque[float] = deque(maxlen=REMEMBERED)
        self._claims: deque[float] = deque(maxlen=REMEMBERED)

    def note_reading(self, seconds: float) -> None:
        """Note that the agenda was read in ``seconds``."""
        self._readings.append(seconds)

    def note_claim(self, seconds: float) -> None:
        """Note that tasks were claimed in ``seconds``."""
        self._claims.append(seconds)

    @property
    def length(self) -> timedelta:
        """The time before it is due at which a task may be claimed: long enough to read the agenda once more and claim.

        It is 0 for a drain, which runs only what is due. A claimed task counts as running: it is too late to cancel or
        reschedule it.
        """
        if self._is_drain:
            return timedelta()
        measured = max(self._readings, default=0.0) + max(self._claims, default=0.0)
        return timedelta(seconds=min(MAX_HOLD, measured + MARGIN))

    def mark(self, tasks: list[ClaimedTask]) -> None:
        """Mark tasks that were claimed ahead: none of them starts before it is due."""
        for task in tasks:
            hold_until(task, claimable_at(task))
