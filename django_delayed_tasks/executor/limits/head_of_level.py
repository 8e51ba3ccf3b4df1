"""Clears the head of a level of tasks that have to wait for a limit: every claim would read them again."""

from collections import defaultdict
from collections.abc import Collection
from typing import Final, Protocol

from django_delayed_tasks import clock
from django_delayed_tasks.executor.limits.waiting_room import LONGEST
from django_delayed_tasks.store.claiming.agenda import LevelKey
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.postpone import HEAD, Seconds, details, look_at_head, postpone
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.sql.fences import Claim

MANY: Final = 100
"""Fewer waiting tasks than this at the head of a level slow a claim down only negligibly."""
LOOK_EVERY: Final = 0.25
"""Seconds between two looks at the head of a level where few tasks were in the way."""
ROUNDS: Final = 4
"""Rounds of clearing before one claim; the next claim continues."""
SOONEST: Final = 1.0
"""Seconds: a task that will be let through sooner than that is not postponed."""


EARLIER: Final = 0.8
"""The fraction of the expected wait for which a task is postponed, so that permits never lack tasks."""


class Judge(Protocol):
    """The interface of what knows the limits: the gate."""

    def full(self) -> frozenset[str]:
        """Return the codes of which no more tasks can be run now."""

    def crowded(self) -> frozenset[str]:
        """Return the codes some of whose keys are full."""

    def has_to_wait(self, task: ClaimedTask) -> bool:
        """Return whether the key of a task of such a code is full."""

    def short_for(self, code: str) -> float:
        """Return for how many seconds there have been too few permits for tasks of a code."""

    def speed(self, code: str) -> float:
        """Return how many tasks of a code are let through per second."""


class HeadOfLevel:
    """Postpones the tasks that are in the way, each for about as long as it will have to wait at the recent speed."""

    def __init__(self, alias: str, judge: Judge) -> None:
        self._alias = alias
        self._judge = judge
        self._next: dict[LevelKey, float] = {}
        self._ends: dict[str, float] = {}

    def clear(self, head: ClaimRequest) -> None:
        """Postpone tasks at the head of a level that have to wait, if it is time to look for them."""
        level = head.queue, head.priority
        if clock.monotonic() < self._next.get(level, 0.0):
            return
        for _ in range(ROUNDS):
            full, crowded = self._judge.full(), self._judge.crowded()
            delays = {code: delay for code in full | crowded if (delay := self._delay(code))}
            if not delays:
                return
            if not self._clear_once(head, full, crowded, delays):
                self._next[level] = clock.monotonic() + LOOK_EVERY
                return

    def _clear_once(
        self, head: ClaimRequest, full: frozenset[str], crowded: frozenset[str], delays: dict[str, Seconds]
    ) -> bool:
        """Clear once; return whether there were :data:`MANY` tasks in the way."""
        in_the_way = self._in_the_way(head, full & delays.keys(), crowded & delays.keys())
        if sum(map(len, in_the_way.values())) < MANY:
            return False
        for code, claims in in_the_way.items():
            postpone(self._alias, claims, delays[code])
            self._ends[code] = self._end(code) + self._seconds(code, len(claims))
        return True

    def _in_the_way(
        self, head: ClaimRequest, full: Collection[str], crowded: Collection[str]
    ) -> dict[str, list[Claim]]:
        found: defaultdict[str, list[Claim]] = defaultdict(list)
        for claim, code in look_at_head(self._alias, head):
            if code in full or code in crowded:
                found[code].append(claim)
        for code in crowded:
            if len(found[code]) >= MANY:
                waiting = {task.claim for task in details(self._alias, found[code]) if self._judge.has_to_wait(task)}
                found[code] = [claim for claim in found[code] if claim in waiting]
        found_again = {code: claims[self._reserve(code) :] for code, claims in found.items()}
        return {code: claims for code, claims in found_again.items() if claims}

    def _reserve(self, code: str) -> int:
        """Return how many tasks to leave, to be let through until the postponed ones return."""
        return int(2 * SOONEST * self._judge.speed(code))

    def _delay(self, code: str) -> Seconds | None:
        duration = self._seconds(code, HEAD)
        # The speed is not known at first, and the shortage may be one of threads.
        if duration < SOONEST or self._judge.short_for(code) < SOONEST:
            return None
        first = max(SOONEST, self._end(code) - clock.monotonic())
        return min(first, LONGEST / 2), min(first + duration, LONGEST)

    def _end(self, code: str) -> float:
        return max(self._ends.get(code, 0.0), clock.monotonic())

    def _seconds(self, code: str, count: int) -> float:
        speed = self._judge.speed(code)
        return min(EARLIER * count / speed, LONGEST) if speed else LONGEST
