"""Those that claim yield to each other's more urgent tasks, and are woken when they need to no longer."""

from collections.abc import Callable

import pytest

from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.capacity import Capacity
from django_delayed_tasks.executor.room.claimant import GRACE, Claimant, Demand, Kind

Later = Callable[[float], None]


@pytest.fixture
def capacity() -> Capacity:
    return Capacity(ExecutorOptions())


@pytest.fixture(params=["plain", "limited"])
def pair(capacity: Capacity, request: pytest.FixtureRequest) -> tuple[Claimant, Claimant]:
    """One that yields, and the other one."""
    both = (capacity.plain, capacity.limited)
    return both if request.param == "plain" else both[::-1]


def test_tasks_of_a_lower_priority_wait_for_the_same_room(pair: tuple[Claimant, Claimant]) -> None:
    mine, other = pair
    assert not mine.yields(Demand(Kind.THREAD, 0))
    other.lack((Demand(Kind.THREAD, 5, code="code"),), 1.0)
    assert mine.yields(Demand(Kind.THREAD, 4))
    assert not mine.yields(Demand(Kind.THREAD, 5)), "equals take turns"
    assert not mine.yields(Demand(Kind.LOOP, 4)), "that takes other room"
    assert not other.yields(Demand(Kind.THREAD, 4))


def test_it_is_woken_when_the_other_one_lacks_room_no_longer(pair: tuple[Claimant, Claimant]) -> None:
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


def test_one_that_was_not_held_back_sleeps_on(pair: tuple[Claimant, Claimant]) -> None:
    mine, other = pair
    other.lack((Demand(Kind.THREAD, 5),), 1.0)
    mine.begin()
    assert not mine.yields(Demand(Kind.THREAD, 9))
    other.lack((), 1.0)
    assert not mine.wake.is_set()


def test_a_change_between_the_look_and_its_note_is_seen(
    pair: tuple[Claimant, Claimant], monkeypatch: pytest.MonkeyPatch
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


def test_one_that_has_not_been_heard_of_holds_nobody_up(pair: tuple[Claimant, Claimant], later: Later) -> None:
    mine, other = pair
    later(0.0)
    other.lack((Demand(Kind.THREAD, 5),), 1.0)
    later(1.0 + GRACE - 0.1)
    assert mine.yields(Demand(Kind.THREAD, 4))
    later(0.2)
    assert not mine.yields(Demand(Kind.THREAD, 4))


def test_on_the_loop_equals_take_turns(pair: tuple[Claimant, Claimant]) -> None:
    """Nothing else puts their runs in an order: there are no lines as those of the threads."""
    mine, other = pair
    other.lack((Demand(Kind.LOOP, 5, served_at=10.0),), 1.0)
    assert mine.yields(Demand(Kind.LOOP, 5, served_at=11.0))
    assert not mine.yields(Demand(Kind.LOOP, 5, served_at=9.0))
    assert not mine.yields(Demand(Kind.LOOP, 5)), "it was never served"
    other.lack((Demand(Kind.THREAD, 5, served_at=10.0),), 1.0)
    assert not mine.yields(Demand(Kind.THREAD, 5, served_at=11.0))


def test_tasks_that_were_shown_come_first_until_they_have_been_looked_at(pair: tuple[Claimant, Claimant]) -> None:
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
    pair: tuple[Claimant, Claimant], later: Later
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


def test_a_claim_that_changes_no_order_wakes_nobody(pair: tuple[Claimant, Claimant]) -> None:
    mine, other = pair
    other.lack((Demand(Kind.THREAD, 5, 1.0, "code"),), 1.0)
    mine.begin()
    assert mine.yields(Demand(Kind.THREAD, 4))
    other.lack((Demand(Kind.THREAD, 5, 2.0, "code"),), 1.0)
    assert not mine.wake.is_set()
    other.lack((Demand(Kind.LOOP, 5, 2.0, "code"),), 1.0)
    assert mine.wake.is_set()


def test_equals_share_places_on_the_loop(pair: tuple[Claimant, Claimant]) -> None:
    mine, other = pair
    other.lack((Demand(Kind.LOOP, 5, code="a"), Demand(Kind.LOOP, 5, code="b"), Demand(Kind.THREAD, 5, code="c")), 1.0)
    assert mine.share(Demand(Kind.LOOP, 5), 7) == 2
    assert mine.share(Demand(Kind.LOOP, 5), 8, equals=2) == 2
    assert mine.share(Demand(Kind.LOOP, 5), 2) == 1
    assert mine.share(Demand(Kind.LOOP, 5), 0) == 0
    assert mine.share(Demand(Kind.LOOP, 4), 7) == 7
    assert mine.share(Demand(Kind.THREAD, 5), 7) == 7, "they take turns when they are taken from the lines"
    assert mine.share(Demand(Kind.THREAD, 5), 7, equals=2) == 4
