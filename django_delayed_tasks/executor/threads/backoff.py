"""Pauses between attempts to reach a database that does not answer."""

import random
from threading import Event


class Backoff:
    """Growing pauses, from 50 ms to 5 s, each up to half of it by chance."""

    def __init__(self, first: float = 0.05, longest: float = 5.0) -> None:
        self._first = first
        self._longest = longest
        self.failures = 0

    def succeeded(self) -> bool:
        """The database answers; whether it had not before."""
        failed, self.failures = self.failures, 0
        return failed > 0

    def failed(self) -> float:
        """It did not; seconds to wait."""
        self.failures += 1
        span: float = min(self._longest, self._first * 2 ** min(self.failures - 1, 20))
        return span * random.uniform(0.5, 1.0)

    def wait(self, stop: Event) -> None:
        """It did not: wait, or until ``stop``."""
        stop.wait(self.failed())
