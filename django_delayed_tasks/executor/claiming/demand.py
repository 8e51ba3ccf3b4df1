"""Decides how many tasks to claim: enough to keep the threads busy, but no more than they will start soon."""

from django_delayed_tasks import clock
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.options import ExecutorOptions

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

    def __init__(self, options: ExecutorOptions, held: Held) -> None:
        self._threads = options.threads
        self._batch_size = options.batch_size
        self._held = held
        self._seen = (0, 0.0)
        self._seen_at = clock.monotonic()
        self._mean: float | None = None
        self._target = options.threads

    def wanted(self) -> int:
        """Return how many tasks to claim now: 0 while half of the target is held or the settler is far behind."""
        self._follow()
        self._held.aim_at(self._target)
        if self._held.is_full or not self._held.wants_more:
            return 0
        return min(self._batch_size, self._target - self._held.unfinished)

    def _follow(self) -> None:
        finished, seconds = self._held.work_done
        runs, spent = finished - self._seen[0], seconds - self._seen[1]
        if not runs:
            if self._seen_at + QUIET < clock.monotonic():
                self._mean, self._target = None, self._threads
            return
        self._seen_at = clock.monotonic()
        latest = max(spent / runs, 1e-6)
        self._mean = latest if self._mean is None else self._mean + _SHARE * (latest - self._mean)
        self._seen = finished, seconds
        self._target = min(self._held.most, self._threads + int(self._threads * AHEAD / self._mean))
