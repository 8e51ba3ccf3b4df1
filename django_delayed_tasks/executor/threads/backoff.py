"""Pauses between attempts to reach a database that does not answer."""

import random
from threading import Event


class Backoff:
    """Pauses that double from ``first`` to ``longest`` seconds; each is shortened by a random part, half at most."""

    def __init__(self, first: float = 0.05, longest: float = 5.0) -> None:
        self._first = first
        self._longest = longest
        self.failures = 0

    def succeeded(self) -> bool:
        """Note a success; return whether the attempt before it had failed."""
        failed, self.failures = self.failures, 0
        return failed > 0

    def failed(self) -> float:
        """Note a failure; return the seconds to wait."""
        self.failures += 1
        span: float = min(self._longest, self._first * 2 ** min(self.failures - 1, 20))
        return span * random.uniform(0.5, 1.0)

    def wait(self, stop: Event) -> None:
        """Note a failure and wait, at most until ``stop`` is set."""
        stop.wait(self.failed())
