"""The two that claim: tasks without limits, and tasks with them. Whose turn it is, and what each lacks room for."""

from collections.abc import Iterable
from enum import StrEnum
from itertools import groupby
from math import inf
from threading import Event
from typing import Final, NamedTuple, Protocol, TypeVar

from django_delayed_tasks import clock

GRACE: Final = 5.0
"""Seconds after which tasks hold others up no longer, although the thread that would claim them has not been heard of:
its connection may hang."""
MAX_IDLE: Final = 1.0
"""Seconds at most until those that claim ask again whether the lease has been renewed: nothing wakes them for that."""
TURNS: Final = 8
"""Claims in a row for one priority, until the agenda and the ends of runs are looked at again."""


class Kind(StrEnum):
    """The kind of room that a run takes. A text, as the hash of any other Enum is Python code."""

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


class Turn(NamedTuple):
    """The outcome of a turn of one source.

    Attributes:
        pause: seconds until it may have more; 0 if something was done or found out.
        wants_room: whether it could use more room: it has taken all of its share, or there was none.
        lost_race: whether other executors were faster, so that it is about to try again.
    """

    pause: float
    wants_room: bool = False
    lost_race: bool = False


class Source(Protocol):
    """Due tasks of one priority that are claimed together: those of a level without limits, or of a limited code."""

    @property
    def least(self) -> int:
        """The number of tasks at least for which a claim is worthwhile, where there is room for them."""

    @property
    def is_ahead(self) -> bool:
        """Whether they are not due yet, but will be in a moment: these come last."""

    @property
    def demand(self) -> Demand:
        """The tasks, as others have to know of them."""

    def room(self) -> int:
        """Return how many of the tasks find room now."""

    def claim(self, count: int) -> Turn:
        """Claim up to ``count`` tasks; with 0 only say whether there are some that could use room."""


S = TypeVar("S", bound=Source)


class Claimer:
    """One of the two that claim, each in a thread of its own: tasks without limits, or with them.

    What the other one has to know is thread-safe.

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

    def join(self, other: "Claimer") -> None:
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

    def passes_over(self, demand: Demand) -> bool:
        """Return whether these tasks are to be passed over now; this is quick while the other one lacks no room."""
        return not self.is_first and self.yields(demand)

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

    def serve(self, portions: Iterable[Iterable[S]]) -> dict[S, Turn]:
        """Let sources claim: higher priorities first, equals in turn. Return the last turn of each.

        Lower priorities have the room of their kind that higher ones leave: none while these could use more. The
        sources of a later portion come after those of an earlier one; it is drawn when these have had their turns.
        """
        turns: dict[S, Turn] = {}
        taken: dict[Kind, int] = {}
        for sources in portions:
            for _, some in groupby(sorted(sources, key=_rank), key=_rank):
                equals = list(some)
                kind, priority, *_ = equals[0].demand
                is_taken = kind in taken and priority <= taken[kind]
                last = {source: source.claim(0) for source in equals} if is_taken else self._share(equals)
                turns |= last
                if any(turn.wants_room for turn in last.values()):
                    taken[kind] = max(priority, taken.get(kind, priority))
        return turns

    def _share(self, equals: list[S]) -> dict[S, Turn]:
        """Let equals share the room in turn, again and again while one of them may have more.

        While one of them is about to try again, after a lost race, the others leave it its share.
        """
        turns: dict[S, Turn] = {}
        for _ in range(max(2, TURNS // len(equals))):
            turns |= self._round(equals)
            equals = [source for source in equals if not turns[source].pause]
            if not equals or any(turn.lost_race for turn in turns.values()):
                break
        return turns

    def _round(self, equals: list[S]) -> dict[S, Turn]:
        turns: dict[S, Turn] = {}
        on_loop = {source: self._on_loop(source, len(equals)) for source in equals if source.demand.kind is Kind.LOOP}
        left = len(equals)
        for source in sorted(equals, key=lambda source: order(source.demand)):
            share = on_loop.get(source) or max(source.least, -(-source.room() // left))
            turns[source] = source.claim(self._allowed(source, share))
            left -= not turns[source].lost_race
        return turns

    def _on_loop(self, source: Source, equals: int) -> int:
        """Return the share of one of ``equals`` in the room on the event loop, with those of the other claimer.

        It is rounded down: nothing but claims puts runs in an order there, and the first one would always have more.
        """
        others, room = self._other.lacking(source.demand.kind, source.demand.priority), source.room()
        return max(1, min(room, source.least) // (1 + others), room // (equals + others))

    def _allowed(self, source: Source, share: int) -> int:
        """Return how many tasks a source may claim of its share: none while tasks of the other claimer come first."""
        room = min(share, source.room())
        return 0 if room <= 0 or self.passes_over(source.demand) else room


def order(demand: Demand, is_ahead: bool = False) -> tuple[bool, int, float]:
    """Return the place of tasks in the order in which they are claimed, as a key for sorting.

    What is due comes before what will be in a moment, then the higher priority, then what was served least recently.
    """
    return is_ahead, -demand.priority, demand.served_at


def _rank(source: Source) -> tuple[bool, int, str]:
    demand = source.demand
    is_ahead, priority, _ = order(demand, source.is_ahead)
    return is_ahead, priority, demand.kind
