"""Is a history of operations one that could have been had if each had taken effect at one moment of its own time?

The search of Wing and Gong, with Lowe's memory of what has been tried: what is next is one of the operations that began
before any other had been answered. The state is a set, of all states in which the thing may be, so that what nothing
tells of may have happened or not.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST = 200_000
"""Partial orders that are tried before the search is given up."""
States = frozenset[Any]


@dataclass(frozen=True)
class Operation:
    """What a client did, and was told.

    ``invoked`` and ``answered`` are moments of one clock. If ``answer`` is None, the answer was lost: the operation may
    have happened at any time after ``invoked``, or never. With an answer, but ``answered`` at infinity, it happened
    some time after ``invoked``.
    """

    verb: str
    invoked: float
    answered: float = math.inf
    answer: str | None = None
    given: str = ""
    client: str = field(default="", compare=False)
    node: str = field(default="", compare=False)

    def __str__(self) -> str:
        until = "" if math.isinf(self.answered) else f"{self.answered:.3f}"
        words = (self.client, self.node and f"by {self.node}", self.verb, self.given, f"-> {self.answer or 'unknown'}")
        return f"[{self.invoked:.3f} .. {until}] {' '.join(word for word in words if word)}"


Step = Callable[[Any, Operation], Iterable[Any]]
"""The states that may follow a state if the operation happens in it and is answered as it was: none if it cannot be."""


class Undecided(Exception):
    """The history has too many orders to try them all."""


def contradiction(history: Sequence[Operation], begin: States, step: Step) -> list[Operation]:
    """Return nothing if the history is linearizable; else the operations of which none can be the next one.

    They are those at the place to which the search came furthest.
    """
    ordered = sorted(history, key=lambda one: (one.invoked, one.answered))
    must = sum(1 << at for at, one in enumerate(ordered) if one.answer is not None)
    tried: set[tuple[int, States]] = {(0, begin)}
    waiting = [(0, begin)]
    furthest, stuck_at = -1, list(ordered)
    while waiting:
        done, states = waiting.pop()
        if done & must == must:
            return []
        following = _candidates(ordered, done)
        if done.bit_count() > furthest:
            furthest, stuck_at = done.bit_count(), [ordered[at] for at in following]
        for at in reversed(following):  # the earliest is tried first
            after = frozenset(new for state in states for new in step(state, ordered[at]))
            reached = done | 1 << at, after
            if after and reached not in tried:
                if len(tried) >= MOST:
                    raise Undecided(f"{len(ordered)} operations")
                tried.add(reached)
                waiting.append(reached)
    return stuck_at


def _candidates(ordered: Sequence[Operation], done: int) -> list[int]:
    """Those that may be the next: they began before any other that is left had been answered."""
    left = [at for at in range(len(ordered)) if not done >> at & 1]
    first_answer = min((ordered[at].answered for at in left), default=math.inf)
    return [at for at in left if ordered[at].invoked <= first_answer]
