"""Decides how many tasks to claim: enough to keep the threads busy, but no more than they will start soon."""

from django_delayed_tasks import clock
from django_delayed_tasks.executor.inflight import InFlight

AHEAD = 0.1
"""Seconds of work to hold in the local queue: a more urgent task that becomes due meanwhile waits that long."""
QUIET = 0.5
"""Seconds without an ended run after which the mean duration is forgotten."""
_SHARE = 0.3
"""The weight of the latest runs in the mean duration."""


class Demand:
    """The demand for tasks, from how long runs take.

    Nothing is prefetched for slow handlers: other executors could run the tasks that would wait here.
    """

    def __init__(self, inflight: InFlight, threads: int, batch_size: int) -> None:
        self._inflight = inflight
        self._threads = threads
        self._batch_size = batch_size
        self._most = threads + 2 * batch_size
        self._seen = (0, 0.0)
        self._seen_at = clock.monotonic()
        self._mean: float | None = None
        self._target = threads
        self.waits_for_settler = False
        """Whether nothing is claimed because too many runs wait to be settled."""

    def wanted(self) -> int:
        """Return how many tasks to claim now: 0 while half of the target is held or the settler is far behind."""
        self._follow()
        unfinished = self._inflight.unfinished
        self.waits_for_settler = self._inflight.unsettled >= 2 * self._most
        if unfinished >= self.refill_below or self.waits_for_settler:
            return 0
        return min(self._batch_size, self._target - unfinished)

    @property
    def refill_below(self) -> int:
        """The number of unfinished tasks below which it is time to claim."""
        return max(self._threads, self._target // 2)

    def _follow(self) -> None:
        finished, seconds = self._inflight.work_done
        runs, spent = finished - self._seen[0], seconds - self._seen[1]
        if not runs:
            if self._seen_at + QUIET < clock.monotonic():
                self._mean, self._target = None, self._threads
            return
        self._seen_at = clock.monotonic()
        latest = max(spent / runs, 1e-6)
        self._mean = latest if self._mean is None else self._mean + _SHARE * (latest - self._mean)
        self._seen = finished, seconds
        self._target = min(self._most, self._threads + int(self._threads * AHEAD / self._mean))
