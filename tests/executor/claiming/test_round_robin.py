"""Levels of one priority take turns."""

from datetime import UTC, datetime, timedelta

import pytest

from django_delayed_tasks.executor.claiming.agenda_reader import MIN_SHARE, RoundRobin
from django_delayed_tasks.store.claiming.agenda import Level

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def level(queue: str, priority: int = 0, later: float = 0.0) -> Level:
    return Level(queue, priority, NOW + timedelta(seconds=later))


def served(levels: RoundRobin, count: int, gives: int = 10) -> list[str]:
    """Return the queues that are served, one after the other; each of them yields tasks."""
    queues = []
    for _ in range(count):
        first = levels.due[0]
        levels.took(gives, 10)
        queues.append(first.queue)
    return queues


def test_equals_are_served_one_after_the_other() -> None:
    levels = RoundRobin(0.2)
    levels.begin([level("storm"), level("a"), level("b")], NOW)
    assert served(levels, 7) == ["storm", "a", "b", "storm", "a", "b", "storm"]


def test_it_continues_where_it_was_when_the_agenda_is_read_again() -> None:
    levels = RoundRobin(0.2)
    found = []
    for _ in range(4):
        levels.begin([level("storm"), level("a"), level("b")], NOW)
        found += served(levels, 1)
    assert found == ["storm", "a", "b", "storm"]


def test_among_those_that_were_never_served_the_one_that_waits_longest_comes_first() -> None:
    """The higher priority comes before that, and what is due before what is due soon, whatever their priorities."""
    levels = RoundRobin(0.2)
    later = {"soon": (9, 1.0), "due": (1, 0.0), "sooner": (9, 0.5), "first": (1, -1.0), "high": (9, -0.5)}
    levels.begin([level(queue, *place) for queue, place in later.items()], NOW)
    assert [one.queue for one in levels.due] == ["high", "first", "due", "sooner", "soon"]


def test_the_higher_priority_comes_first_however_often() -> None:
    levels = RoundRobin(0.2)
    levels.begin([level("low", -1), level("high", 5), level("middle"), level("high too", 5)], NOW)
    assert served(levels, 4) == ["high", "high too", "high", "high too"]


def test_a_level_that_does_not_give_what_is_wanted_is_done_with() -> None:
    levels = RoundRobin(0.2)
    levels.begin([level("empty"), level("full")], NOW)
    assert served(levels, 1, gives=0) == ["empty"]
    assert served(levels, 3) == ["full"] * 3
    assert served(levels, 1, gives=9) == ["full"]
    assert levels.due == []


def test_what_is_due_in_a_moment_comes_last() -> None:
    levels = RoundRobin(0.2)
    levels.begin([level("soon", 5, later=0.01), level("now", -5)], NOW)
    assert served(levels, 2) == ["now", "now"]


@pytest.mark.parametrize(
    ("equals", "wanted", "share"), [(1, 300, 300), (3, 300, 100), (50, 300, MIN_SHARE), (50, 8, 8)]
)
def test_what_is_wanted_is_shared_among_equals(equals: int, wanted: int, share: int) -> None:
    levels = RoundRobin(0.2)
    levels.begin([*(level(str(number)) for number in range(equals)), level("other", -1)], NOW)
    assert levels.share(wanted) == share
