"""Which slots an executor remembers as free: what it chooses and does not get costs a claim each time."""

import pytest

from django_delayed_tasks.executor.limits.runs import InSlot, LaneRuns
from django_delayed_tasks.store.sql.fences import Claim

FIRST, SECOND = Claim(1, 1, 1), Claim(2, 1, 1)
KEY, SLOT = "key", 7


@pytest.fixture
def runs() -> LaneRuns:
    """One run, in the slot whose version was 3."""
    runs = LaneRuns()
    runs.begin({FIRST: KEY}, {FIRST: (SLOT, 3)})
    return runs


def test_a_slot_is_free_when_its_run_has_ended(runs: LaneRuns) -> None:
    assert runs.end({FIRST}.__contains__) == []
    assert runs.take_free(KEY) == []
    assert runs.end(set().__contains__) == [KEY]
    assert runs.take_free(KEY) == [(SLOT, 4)]
    assert runs.take_free(KEY) == []


def test_a_slot_that_the_database_showed_before_the_end_was_noted_is_not_free(runs: LaneRuns) -> None:
    runs.begin({SECOND: KEY}, {SECOND: (SLOT, 4)})
    assert runs.here() == {KEY: 1}
    assert runs.in_slot(FIRST) is None, "it must not be handed on by a run that has lost it"
    assert runs.end({SECOND}.__contains__) == [KEY]
    assert runs.take_free(KEY) == []
    assert runs.end(set().__contains__) == [KEY]
    assert runs.take_free(KEY) == [(SLOT, 5)]


def test_nor_is_it_remembered_twice(runs: LaneRuns) -> None:
    runs.put_back({KEY: [(SLOT, 4)]})
    runs.end(set().__contains__)
    assert runs.take_free(KEY) == [(SLOT, 4)]


def test_a_slot_that_was_handed_on_belongs_to_the_next_run(runs: LaneRuns) -> None:
    in_slot = runs.in_slot(FIRST)
    assert in_slot == InSlot(KEY, (SLOT, 4))
    runs.hand_on(FIRST, SECOND, in_slot)
    assert runs.end({SECOND}.__contains__) == []
    assert runs.in_slot(SECOND) == InSlot(KEY, (SLOT, 5))
    assert runs.here() == {KEY: 1}


def test_a_claim_that_is_given_twice_has_one_slot(runs: LaneRuns) -> None:
    """A server that lost its last commits gives a version twice."""
    other = 8
    runs.begin({FIRST: KEY}, {FIRST: (other, 1)})
    assert runs.here() == {KEY: 1}
    assert runs.end(set().__contains__) == [KEY]
    runs.begin({SECOND: KEY}, {SECOND: (SLOT, 3)})
    assert runs.in_slot(SECOND) == InSlot(KEY, (SLOT, 4))
