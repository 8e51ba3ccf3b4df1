"""Those that claim, as far as they have to know of each other: whose tasks come first, and who waits for room."""

from enum import Enum
from math import inf
from threading import Event
from typing import Final, NamedTuple

from django_delayed_tasks import clock

GRACE: Final = 5.0
"""Seconds after which tasks hold others up no longer, although the thread that would claim them has not been heard of:
its connection may hang."""


class Kind(Enum):
    """The kind of room that a run takes."""

    THREAD = "thread"
    LOOP = "loop"


class Demand(NamedTuple):
    """Tasks that are due, could run, and find no room: of a limited ``code``, or "" for those without limits.

    ``served_at``: the monotonic second at which such tasks were last claimed.
    """

    kind: Kind
    priority: int
    served_at: float = -inf
    code: str = ""

    @property
    def place(self) -> tuple[Kind, int, float, str]:
        """All that decides what comes first: for threads, when tasks were last claimed does not."""
        return self.kind, self.priority, self.served_at if self.kind is Kind.LOOP else 0.0, self.code

    def precedes(self, other: "Demand") -> bool:
        """Return whether these tasks come first: by their priority, and on the event loop in turn among equals.

        Those that wait for threads take turns when they are claimed, in the lines of the threads.
        """
        if self.kind is not other.kind or self.priority != other.priority:
            return self.kind is other.kind and self.priority > other.priority
        return self.kind is Kind.LOOP and self.served_at < other.served_at


class Claimant:
    """One of the two threads that claim: tasks without limits, or with them. Thread-safe.

    Attributes:
        wake: set when there is something to claim, or room for it.
        wants_room: whether to be woken when a run has ended.
        lacks: what it could claim, and has found no room for.
        is_held_back: whether it has passed over tasks, since the other one lacks room for more urgent ones.
    """

    def __init__(self, wake: Event | None = None) -> None:
        self.wake = wake or Event()
        self.wants_room = True
        self.lacks: tuple[Demand, ...] = ()
        self._expected: tuple[Demand, ...] = ()
        self.is_held_back = False
        self._lacks_until = self._expected_until = 0.0
        self._other = self

    def join(self, other: "Claimant") -> None:
        """Let these two yield to each other."""
        self._other, other._other = other, self

    def begin(self) -> None:
        """Note that it looks for something to claim: what ends from now on makes room that it may not have seen."""
        self.wants_room = True
        self.is_held_back = False

    def expect(self, demands: tuple[Demand, ...]) -> None:
        """Note tasks that are due, and that it has yet to look at: they come first until it has."""
        if demands and not self._expected:
            self._expected_until = clock.monotonic() + GRACE
        self._expected = tuple(dict.fromkeys((*self._expected, *demands)))

    def lack(self, lacks: tuple[Demand, ...], seconds: float) -> None:
        """Note what it lacks room for, until it looks again: in ``seconds`` at the latest."""
        has_changed = [one.place for one in lacks] != [one.place for one in self.lacks]
        self._lacks_until = clock.monotonic() + seconds + GRACE
        self.lacks = lacks
        self._note_change(has_changed)

    def looked(self) -> None:
        """Note that it has looked at the tasks that were expected."""
        had_some, self._expected = bool(self._expected), ()
        self._note_change(had_some)

    def _note_change(self, has_changed: bool) -> None:
        if has_changed and self._other.is_held_back:
            self._other.wake.set()

    def rest(self) -> None:
        """Note that room is of no use to it: it is woken by other things."""
        self.wants_room = False

    @property
    def is_first(self) -> bool:
        """Whether the other one lacks nothing, so that it need not yield."""
        return not (self._other.lacks or self._other._expected)

    def yields(self, demand: Demand) -> bool:
        """Return whether these tasks are to be passed over, since the other one lacks room for some that come first.

        It is woken when that has changed.
        """
        if not self._other.precedes(demand):
            return False
        self.is_held_back = True
        return self._other.precedes(demand)  # asked again, since that may have changed before it was noted

    def precedes(self, demand: Demand) -> bool:
        """Return whether it lacks room for tasks that come before these."""
        lacks, expected = self.lacks, self._expected
        if not (lacks or expected):
            return False
        now = clock.monotonic()
        is_lacking = now < self._lacks_until and any(one.precedes(demand) for one in lacks)
        return is_lacking or (now < self._expected_until and any(one.precedes(demand) for one in expected))

    def share(self, demand: Demand, room: int, equals: int = 1) -> int:
        """Return how much of the room to take for one of ``equals`` codes of this claimant, with such tasks each.

        On the event loop they share it with those of the other one, and the first of them takes no more than the last:
        nothing but claims puts runs in an order there.
        """
        if demand.kind is Kind.THREAD or room <= 0:
            return -(-room // equals)
        return max(1, room // (equals + self._other.lacking(demand.kind, demand.priority)))

    def lacking(self, kind: Kind, priority: int) -> int:
        """Return for how many codes it lacks room of this kind, for tasks of this priority."""
        return sum(demand.kind is kind and demand.priority == priority for demand in self.lacks)

    @property
    def has_to_wait(self) -> bool:
        """Whether it has passed over tasks, and the other one still lacks room."""
        return self.is_held_back and not self.is_first

    def lacks_for_others(self, code: str) -> bool:
        """Return whether it lacks room for tasks of another code than this one."""
        return any(demand.code != code for demand in self.lacks)
