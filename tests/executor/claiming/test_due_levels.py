"""What an agenda has shown to be due is claimed from until it is too old, and at least once."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from django_delayed_tasks.executor.claiming.due_levels import DueLevels
from django_delayed_tasks.executor.room.capacity import Room
from django_delayed_tasks.store.claiming.agenda import FRESH, Level
from django_delayed_tasks.store.sql.lanes import LOOP

Later = Callable[[float], None]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


ROOM = Room(10, 10)


def level(queue: str, priority: int = 0, later: float = 0.0, lane: str = "") -> Level:
    return Level(queue, priority, NOW + timedelta(seconds=later), lane)


def shown(*levels: Level) -> DueLevels:
    due = DueLevels(0.2)
    due.begin(list(levels), NOW)
    return due


def taken(due: DueLevels, room: Room = ROOM) -> list[str]:
    return [one.queue for one in due.take(room)]


def test_among_those_that_were_never_served_the_one_that_waits_longest_comes_first() -> None:
    """The higher priority comes before that, and what is due before what is due soon, whatever their priorities."""
    places = {"soon": (9, 1.0), "due": (1, 0.0), "sooner": (9, 0.5), "first": (1, -1.0), "high": (9, -0.5)}
    due = shown(*(level(queue, *place) for queue, place in places.items()))
    assert taken(due) == ["high", "first", "due", "sooner", "soon"]


def test_what_was_served_comes_after_its_equals() -> None:
    due = shown(*map(level, "abc"))
    found = []
    for _ in range(4):
        [first] = due.take(Room(1, 0))
        due.note_served(first)
        due.put_back([first], is_unused=False)
        found.append(first.queue)
    assert found == ["a", "b", "c", "a"]


def test_as_many_are_taken_as_there_is_room_for() -> None:
    """Those of the event loop find room behind any number of others."""
    due = shown(level("a"), level("b"), level("c"), level("loop", -1, lane=LOOP))
    assert taken(due, Room(2, 1)) == ["a", "b", "loop"]
    assert taken(due) == ["c"]


def test_an_agenda_is_used_once_however_old_it_is(later: Later) -> None:
    later(0.0)
    due = shown(level("a"))
    later(FRESH * 2)
    assert taken(due) == ["a"]
    due.put_back([level("a")], is_unused=True)
    assert taken(due) == ["a"], "other tasks came first"
    due.put_back([level("a")], is_unused=False)
    assert taken(due) == []


def test_one_that_is_fresh_is_used_again(later: Later) -> None:
    later(0.0)
    due = shown(level("a"), level("b"))
    assert taken(due) == ["a", "b"]
    due.put_back([level("b")], is_unused=False)
    later(FRESH / 2)
    assert taken(due) == ["b"]


def test_when_a_level_was_served_is_known_for_the_next_agenda(later: Later) -> None:
    later(0.0)
    due = shown(level("a"), level("b"))
    due.note_served(level("a"))
    due.begin([level("a"), level("b")], NOW)
    assert taken(due) == ["b", "a"]
    due.begin([level("b")], NOW)
    due.begin([level("b"), level("a")], NOW)
    assert due.served_at(level("a")) == due.served_at(level("b")), "nothing of it was due in between"
