"""Those that claim: whose turn it is, how they yield to each other's more urgent tasks, and when they are woken."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest

from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.capacity import Capacity
from django_delayed_tasks.executor.room.claimer import GRACE, MAX_IDLE, Claimer, Demand, Kind, Turn

Later = Callable[[float], None]


@pytest.fixture
def capacity() -> Capacity:
    return Capacity(ExecutorOptions())


@pytest.fixture(params=["plain", "limited"])
def pair(capacity: Capacity, request: pytest.FixtureRequest) -> tuple[Claimer, Claimer]:
    """One that yields, and the other one."""
    both = (capacity.plain, capacity.limited)
    return both if request.param == "plain" else both[::-1]


def test_tasks_of_a_lower_priority_wait_for_the_same_room(pair: tuple[Claimer, Claimer]) -> None:
    mine, other = pair
    assert not mine.yields(Demand(Kind.THREAD, 0))
    other.lack((Demand(Kind.THREAD, 5, code="code"),), 1.0)
    assert mine.yields(Demand(Kind.THREAD, 4))
    assert not mine.yields(Demand(Kind.THREAD, 5)), "equals take turns"
    assert not mine.yields(Demand(Kind.LOOP, 4)), "that takes other room"
    assert not other.yields(Demand(Kind.THREAD, 4))


def test_it_is_woken_when_the_other_one_lacks_room_no_longer(pair: tuple[Claimer, Claimer]) -> None:
    mine, other = pair
    other.lack((Demand(Kind.THREAD, 5),), 1.0)
    mine.begin()
    assert mine.yields(Demand(Kind.THREAD, 4))
    assert mine.has_to_wait
    other.lack((Demand(Kind.THREAD, 5),), 1.0)
    assert not mine.wake.is_set(), "nothing has changed"
    other.lack((), 1.0)
    assert mine.wake.is_set()
    assert not mine.has_to_wait


def test_one_that_was_not_held_back_sleeps_on(pair: tuple[Claimer, Claimer]) -> None:
    mine, other = pair
    other.lack((Demand(Kind.THREAD, 5),), 1.0)
    mine.begin()
    assert not mine.yields(Demand(Kind.THREAD, 9))
    other.lack((), 1.0)
    assert not mine.wake.is_set()


def test_a_change_between_the_look_and_its_note_is_seen(
    pair: tuple[Claimer, Claimer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would sleep, and no thread would wake it."""
    mine, other = pair
    other.lack((Demand(Kind.THREAD, 5),), 1.0)
    usual = other.precedes

    def precedes(demand: Demand) -> bool:
        found = usual(demand)
        if not mine.is_held_back:
            other.lack((), 1.0)
        return found

    monkeypatch.setattr(other, "precedes", precedes)
    assert not mine.yields(Demand(Kind.THREAD, 4))


def test_one_that_has_not_been_heard_of_holds_nobody_up(pair: tuple[Claimer, Claimer], later: Later) -> None:
    mine, other = pair
    later(0.0)
    other.lack((Demand(Kind.THREAD, 5),), 1.0)
    later(1.0 + GRACE - 0.1)
    assert mine.yields(Demand(Kind.THREAD, 4))
    later(0.2)
    assert not mine.yields(Demand(Kind.THREAD, 4))


def test_on_the_loop_equals_take_turns(pair: tuple[Claimer, Claimer]) -> None:
    """Nothing else puts their runs in an order: there are no lines as those of the threads."""
    mine, other = pair
    other.lack((Demand(Kind.LOOP, 5, served_at=10.0),), 1.0)
    assert mine.yields(Demand(Kind.LOOP, 5, served_at=11.0))
    assert not mine.yields(Demand(Kind.LOOP, 5, served_at=9.0))
    assert not mine.yields(Demand(Kind.LOOP, 5)), "it was never served"
    other.lack((Demand(Kind.THREAD, 5, served_at=10.0),), 1.0)
    assert not mine.yields(Demand(Kind.THREAD, 5, served_at=11.0))


def test_tasks_that_were_shown_come_first_until_they_have_been_looked_at(pair: tuple[Claimer, Claimer]) -> None:
    mine, other = pair
    other.expect((Demand(Kind.THREAD, 5, code="code"),))
    assert mine.yields(Demand(Kind.THREAD, 4))
    assert not other.lacks_for_others("another"), "there may be room for them"
    assert mine.has_to_wait
    other.lack((), 1.0)
    assert not mine.wake.is_set(), "it has yet to look"
    other.looked()
    assert mine.wake.is_set()
    assert not mine.yields(Demand(Kind.THREAD, 4))


def test_what_is_expected_again_and_again_holds_nothing_up_for_ever(
    pair: tuple[Claimer, Claimer], later: Later
) -> None:
    """The thread that is to look may hang."""
    mine, other = pair
    later(0.0)
    for _ in range(3):
        other.expect((Demand(Kind.THREAD, 5, code="code"),))
        assert mine.yields(Demand(Kind.THREAD, 4))
        later(GRACE / 3 + 0.1)
    other.expect((Demand(Kind.THREAD, 5, code="code"),))
    assert not mine.yields(Demand(Kind.THREAD, 4))


def test_a_claim_that_changes_no_order_wakes_nobody(pair: tuple[Claimer, Claimer]) -> None:
    mine, other = pair
    other.lack((Demand(Kind.THREAD, 5, 1.0, "code"),), 1.0)
    mine.begin()
    assert mine.yields(Demand(Kind.THREAD, 4))
    other.lack((Demand(Kind.THREAD, 5, 2.0, "code"),), 1.0)
    assert not mine.wake.is_set()
    other.lack((Demand(Kind.LOOP, 5, 2.0, "code"),), 1.0)
    assert mine.wake.is_set()


@dataclass(eq=False)
class Tasks:
    """Due tasks of one code: ``count`` of them; each claim takes room that all share.

    ``races``: how many claims lose a race.
    """

    code: str
    count: int
    shared: "Shared"
    priority: int = 0
    kind: Kind = Kind.THREAD
    least: int = 1
    is_ahead: bool = False
    races: int = 0
    served_at: float = -inf

    @property
    def demand(self) -> Demand:
        return Demand(self.kind, self.priority, self.served_at, self.code)

    def room(self) -> int:
        return self.shared.room

    def claim(self, count: int) -> Turn:
        if not count:
            return Turn(MAX_IDLE, wants_room=bool(self.count))
        self.shared.clock += 1.0
        if self.races:
            self.races -= 1
            return Turn(0.01, lost_race=True)
        self.served_at = self.shared.clock
        claimed = min(count, self.count)
        self.count -= claimed
        self.shared.room -= claimed
        self.shared.claims.append((self.code, claimed))
        return Turn(0.0, wants_room=True) if claimed == count else Turn(MAX_IDLE)


@dataclass
class Shared:
    """The room of some sources, and what was claimed."""

    room: int
    claims: list[tuple[str, int]] = field(default_factory=list)
    clock: float = 0.0

    def of(self, code: str, count: int, priority: int = 0, **options: Any) -> Tasks:
        return Tasks(code, count, self, priority, **options)


def test_equals_share_the_room() -> None:
    shared = Shared(room=8)
    Claimer().serve([[shared.of("a", 9), shared.of("b", 9), shared.of("c", 9)]])
    assert shared.claims == [("a", 3), ("b", 3), ("c", 2)]


def test_what_one_leaves_the_others_take() -> None:
    shared = Shared(room=8)
    turns = Claimer().serve([[a := shared.of("a", 9), b := shared.of("b", 1), c := shared.of("c", 9, -1)]])
    assert shared.claims == [("a", 4), ("b", 1), ("a", 3)]
    assert [turns[source].wants_room for source in (a, b, c)] == [True, False, True]


def test_the_first_turn_is_of_the_one_that_was_served_least_recently() -> None:
    claimer, shared = Claimer(), Shared(room=1)
    sources = [shared.of(code, 9) for code in "abc"]
    for _ in range(4):
        claimer.serve([sources])
        shared.room = 1
    assert shared.claims == [("a", 1), ("b", 1), ("c", 1), ("a", 1)]


def test_a_higher_priority_comes_first_however_often() -> None:
    claimer, shared = Claimer(), Shared(room=2)
    sources = [shared.of("low", 9, -1), shared.of("high", 3, 5), shared.of("middle", 9)]
    for _ in range(3):
        claimer.serve([sources])
        shared.room = 2
    assert shared.claims == [("high", 2), ("high", 1), ("middle", 1), ("high", 0), ("middle", 2)]


def test_a_lower_priority_waits_as_long_as_a_higher_one_could_use_room() -> None:
    """Room that comes while the higher one is claimed is not for it."""

    class Growing(Shared):
        """Runs end as quickly as tasks are claimed."""

        room = property(lambda self: 2, lambda self, room: None)

    shared = Growing(room=2)
    turns = Claimer().serve([[high := shared.of("high", 99, 5), low := shared.of("low", 9)]])
    assert {code for code, _ in shared.claims} == {"high"}
    assert (turns[high].pause, turns[low].wants_room) == (0.0, True)


def test_what_is_due_in_a_moment_comes_last() -> None:
    shared = Shared(room=3)
    Claimer().serve([[shared.of("soon", 9, 5, is_ahead=True), shared.of("now", 2, -5)]])
    assert shared.claims == [("now", 2), ("soon", 1)]


@pytest.mark.parametrize(("equals", "room", "share"), [(1, 300, 300), (3, 300, 100), (50, 300, 32), (50, 8, 8)])
def test_a_share_is_worth_a_claim(equals: int, room: int, share: int) -> None:
    shared = Shared(room)
    Claimer().serve([[shared.of(str(number), 999, least=32) for number in range(equals)]])
    assert shared.claims[0] == ("0", share)


def test_what_is_due_in_a_moment_is_held_up_by_more_urgent_tasks_only(pair: tuple[Claimer, Claimer]) -> None:
    mine, other = pair
    other.lack((Demand(Kind.THREAD, 5, code="code"),), 1.0)
    shared = Shared(room=3)
    turns = mine.serve([[due := shared.of("due", 9), shared.of("soon", 1, 10, is_ahead=True)]])
    assert shared.claims == [("soon", 1)]
    assert turns[due].wants_room


def test_room_of_both_kinds_together_is_for_the_higher_priority() -> None:
    """As for an executor that ends after a number of tasks."""
    shared = Shared(room=1)
    Claimer().serve([[shared.of("async", 9, kind=Kind.LOOP), shared.of("urgent", 9, 5)]])
    assert shared.claims == [("urgent", 1)]


def test_the_room_of_the_loop_is_no_room_for_threads() -> None:
    threads, loop = Shared(room=0), Shared(room=1)
    Claimer().serve([[threads.of("urgent", 9, 5), loop.of("async", 9, kind=Kind.LOOP)]])
    assert (threads.claims, loop.claims) == ([], [("async", 1)])


@pytest.mark.parametrize("room", [1, 2, 3])
def test_little_room_on_the_loop_is_shared_one_by_one(pair: tuple[Claimer, Claimer], room: int) -> None:
    mine, other = pair
    other.lack((Demand(Kind.LOOP, 0, code="a"), Demand(Kind.LOOP, 0, code="b")), 1.0)
    shared = Shared(room)
    mine.serve([[shared.of("mine", 9, kind=Kind.LOOP, least=32)]])
    assert shared.claims == [("mine", 1)]


def test_on_the_loop_the_first_one_has_no_larger_share() -> None:
    shared = Shared(room=3)
    Claimer().serve([[shared.of("a", 9, kind=Kind.LOOP), shared.of("b", 9, kind=Kind.LOOP)]])
    assert shared.claims == [("a", 1), ("b", 1), ("a", 1)]


def test_equals_share_places_on_the_loop_with_those_of_the_other_one(pair: tuple[Claimer, Claimer]) -> None:
    mine, other = pair
    other.lack((Demand(Kind.LOOP, 5, code="a"), Demand(Kind.LOOP, 5, code="b"), Demand(Kind.THREAD, 5, code="c")), 1.0)
    shared = Shared(room=7)
    turns = mine.serve([[source := shared.of("mine", 9, 5, kind=Kind.LOOP)]])
    assert shared.claims == [("mine", 2)], "then it is their turn"
    assert turns[source].wants_room
    many = Shared(room=100)
    mine.serve([[many.of(str(number), 99, 5, kind=Kind.LOOP, least=32) for number in range(100)]])
    assert many.claims[0] == ("0", 10), "worth a claim"
    threads = Shared(room=7)
    mine.serve([[threads.of("mine", 9, 5)]])
    assert threads.claims == [("mine", 7)], "they take turns when they are taken from the lines"


def test_one_that_loses_a_race_keeps_its_share() -> None:
    claimer, shared = Claimer(), Shared(room=4)
    sources = [shared.of("a", 9, races=1), shared.of("b", 9)]
    claimer.serve([sources])
    assert shared.claims == [("b", 2)]
    claimer.serve([sources])
    assert shared.claims[1] == ("a", 1)
