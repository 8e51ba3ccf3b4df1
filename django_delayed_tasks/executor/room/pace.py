"""The pace at which runs end, from which follows how many tasks to claim before a thread is free for them."""

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Final

from django_delayed_tasks import clock

WINDOW: Final = 0.1
"""Seconds over which the rate of ended runs is averaged."""
QUIET: Final = 0.5
"""Seconds without an ended run after which the mean duration is forgotten."""


class Pace:
    """The pace of the runs in threads, or of those on the event loop; thread-safe.

    Attributes:
        note_end: to be called with the seconds that a run took, at its end. It takes no lock, and no step of Python.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._latest: deque[float] = deque()
        self.note_end: Callable[[float], None] = self._latest.append
        self._ended = 0
        self._seconds = 0.0
        now = clock.monotonic()
        self._rate, self._rated, self._rated_at = 0.0, 0, now
        self._mean: float | None = None
        self._seen, self._seen_at = (0, 0.0), now

    @property
    def ended(self) -> tuple[int, float]:
        """(the number of runs that have ended so far, the seconds they took)."""
        with self._lock:
            return self._count()

    def _count(self) -> tuple[int, float]:
        for _ in range(len(self._latest)):
            self._ended, self._seconds = self._ended + 1, self._seconds + self._latest.popleft()
        return self._ended, self._seconds

    @property
    def rate(self) -> float:
        """The number of runs that end in a second, of whatever code: one that is long does not count."""
        with self._lock:
            ended, now = self._count()[0], clock.monotonic()
            if elapsed := now - self._rated_at:
                latest = (ended - self._rated) / elapsed
                self._rate += min(1.0, elapsed / WINDOW) * (latest - self._rate)
                self._rated, self._rated_at = ended, now
            return self._rate

    @property
    def mean(self) -> float | None:
        """The mean duration of the latest runs in seconds; None if none has ended lately."""
        with self._lock:
            ended, now = self._count(), clock.monotonic()
            runs, seconds = ended[0] - self._seen[0], ended[1] - self._seen[1]
            if runs:
                latest = max(seconds / runs, 1e-6)
                self._mean = latest if self._mean is None else self._mean + 0.3 * (latest - self._mean)
                self._seen, self._seen_at = ended, now
            elif self._seen_at + QUIET < now:
                self._mean = None
            return self._mean
