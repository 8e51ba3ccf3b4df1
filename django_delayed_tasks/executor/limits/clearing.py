"""Tasks that wait for a limit are kept from lying at the head of their level, where every claim would read them."""

from collections.abc import Callable, Iterable
from typing import Final

from django_delayed_tasks import clock
from django_delayed_tasks.executor.limits.gate import LONGEST
from django_delayed_tasks.store import ClaimRequest, LevelKey
from django_delayed_tasks.store.putting_off import HEAD, MANY, Seconds, put_off

LOOK_EVERY: Final = 0.25
ROUNDS: Final = 4
"""Of one claim; the next claim goes on."""
SOONEST: Final = 1.0
"""Seconds: what will be let through as soon as that is left where it is."""


class Clearing:
    """Puts off what is in the way: each task for about as long as it will have to wait, by the speed of late."""

    def __init__(self, alias: str, speed: Callable[[str], float]) -> None:
        """``speed(code)`` is how many tasks of a code are let through in a second."""
        self._alias = alias
        self._speed = speed
        self._next: dict[LevelKey, float] = {}
        self._ends: dict[str, float] = {}

    def clear(self, head: ClaimRequest, codes: Iterable[str]) -> None:
        """Look at the head of a level, if it is time to, for tasks of codes that have to wait."""
        level = head.queue, head.priority
        if clock.monotonic() < self._next.get(level, 0.0):
            return
        for _ in range(ROUNDS):
            delays = {code: delay for code in codes if (delay := self._delay(code))}
            counts = put_off(self._alias, head, delays) if delays else {}
            if sum(counts.values()) < MANY:
                self._next[level] = clock.monotonic() + LOOK_EVERY
                return
            for code, count in counts.items():
                self._ends[code] = self._end(code) + self._seconds(code, count)

    def _delay(self, code: str) -> Seconds | None:
        duration = self._seconds(code, HEAD)
        if duration < SOONEST:
            return None
        first = max(SOONEST, self._end(code) - clock.monotonic())
        return min(first, LONGEST / 2), min(first + duration, LONGEST)

    def _end(self, code: str) -> float:
        return max(self._ends.get(code, 0.0), clock.monotonic())

    def _seconds(self, code: str, count: int) -> float:
        speed = self._speed(code)
        return min(count / speed, LONGEST) if speed else LONGEST
