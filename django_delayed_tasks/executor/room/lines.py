"""The lines in which claimed tasks wait for a thread: one for those without permits, and one for each limited code."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from math import inf
from threading import Lock
from typing import Final

from django_delayed_tasks.executor.room.claimer import Claimer, Kind
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

PLAIN: Final = ""
"""The line of the tasks without permits."""

Batch = list[ClaimedTask]
"""Tasks that are run in one call; most have only one."""
Waiting = tuple[int, Batch]
"""A batch that waits, after the number of batches that were queued before it; plain, as one is made for each run."""


class Lines:
    """The batches that wait; thread-safe.

    The next one is the first of the line with the highest priority, and the lines take turns among equals. That of the
    tasks without permits is as urgent as the most urgent one that waits in it, since what is before that is in its way.
    A code whose line is empty since it lacks room counts, too: the task of another limited code is taken in its place.
    But a task with permits is not overtaken by what was queued after it: as long as a flow of others went on, it would
    hold permits that another executor could use. While none waits with permits, a batch is taken without a lock.

    Attributes:
        permitted: the number of tasks that wait with permits.
    """

    def __init__(self, limited: Claimer) -> None:
        """``limited``: who claims the tasks with permits."""
        self._limited = limited
        self._numbers = count()
        self._turn = 0
        self._plain: deque[Waiting] = deque()
        self._urgent: deque[Waiting] = deque()  # of these, all that are more urgent than each one after them
        self._lanes: dict[str, deque[Waiting]] = {}
        self._served: dict[str, int] = {}
        self._lock = Lock()
        self.permitted = 0

    @property
    def unpermitted(self) -> int:
        """The number of batches that wait without permits."""
        return len(self._plain)

    @property
    def waiting(self) -> int:
        """The number of batches that no thread has taken yet, although some may have been woken for them."""
        return len(self._plain) + self.permitted

    def has_waiting(self, code: str) -> bool:
        """Return whether a task of this code waits with permits."""
        return bool(self._lanes.get(code))

    def add(self, batches: Sequence[Batch], are_permitted: bool) -> None:
        """Let batches wait; ``are_permitted``: their tasks have permits."""
        with self._lock:
            waiting = list(zip(self._numbers, batches, strict=False))
            if are_permitted:
                for one in waiting:
                    self._lanes.setdefault(one[1][0].biz_code, deque()).append(one)
                self.permitted += len(waiting)
            else:
                self._add_urgent(waiting)
                self._plain.extend(waiting)

    def _add_urgent(self, waiting: list[Waiting]) -> None:
        if self._urgent:
            self._forget_taken(self._first_plain())
        highest, new = -inf, deque[Waiting]()
        for one in reversed(waiting):  # most claims are of one priority
            if (priority := one[1][0].priority) > highest:
                highest = priority
                new.appendleft(one)
        while self._urgent and _priority(self._urgent[-1]) <= highest:
            self._urgent.pop()
        self._urgent.extend(new)

    def _first_plain(self) -> Waiting | None:
        with suppress(IndexError):  # threads take from this line without the lock
            return self._plain[0]
        return None

    def _forget_taken(self, first: Waiting | None) -> None:
        """Forget the urgent ones that were taken: ``first`` is the first one that waits."""
        while self._urgent and (first is None or self._urgent[0][0] < first[0]):
            self._urgent.popleft()

    def take(self) -> Batch:
        """Remove and return the batch whose turn it is; there must be one for each thread that calls this."""
        while True:
            try:
                return self._take_in_turn() if self.permitted else self._plain.popleft()[1]
            except IndexError:  # another thread has just taken the last one
                continue

    def _take_in_turn(self) -> Batch:
        with self._lock:
            line = self._next()
            self._turn += 1
            self._served[line] = self._turn
            if line == PLAIN:
                return self._plain.popleft()[1]
            self.permitted -= 1
            return self._lanes[line].popleft()[1]

    def _next(self) -> str:
        first = {line: waiting[0] for line, waiting in self._lanes.items() if waiting}
        priority = {line: _priority(waiting) for line, waiting in first.items()}
        before = min((waiting[0] for waiting in first.values()), default=inf)  # what is later overtakes none of them
        if plain := self._first_plain():
            first[PLAIN] = plain
            priority[PLAIN] = self._priority_of_plain(plain, before)
        if not first:
            raise IndexError
        lowest, may_start = inf, []
        for line in sorted(first, key=lambda line: first[line][0]):
            if priority[line] <= lowest:
                may_start.append(line)
            if line != PLAIN:
                lowest = min(lowest, priority[line])
        return min(may_start, key=lambda line: (-priority[line], *self._place(line, priority[line])))

    def _priority_of_plain(self, first: Waiting, before: float) -> int:
        """Return the priority of the most urgent task without permits that was queued ``before`` that number."""
        self._forget_taken(first)
        return max(_priority(waiting) for waiting in (first, *self._urgent) if waiting is first or waiting[0] < before)

    def _place(self, line: str, priority: int) -> tuple[bool, int, bool]:
        """Return the place of a line among equals."""
        served, is_plain = self._served.get(line, 0), line == PLAIN
        lacking = self._limited.lacking(Kind.THREAD, priority) if is_plain and served else 0
        return self._turn - served < lacking, served, is_plain


def _priority(waiting: Waiting) -> int:
    return waiting[1][0].priority
