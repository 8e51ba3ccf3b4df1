"""How fast tasks get their permits, and for how long they are postponed."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.limits.permits import Permits
from django_delayed_tasks.executor.limits.waiting_room import LONGEST, OF_LATE, PER_ROOM, SPAN, WaitingRoom
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from tests.executor.limits.parts import add_some
from tests.executor.parts import claim, handler_of, registered
from tests.executor.test_held import a_task

Later = Callable[[float], None]


def test_what_waits_long_comes_back_seldom(later: Later) -> None:
    """The more there are, the later, so that all together cost about the same."""
    handler = handler_of(lambda task: None, max_concurrent=1)
    room = WaitingRoom(handler, Permits("default", handler, Held(ExecutorOptions()), timedelta(seconds=15)))
    later(0.0)
    assert room.pause(0.25, 1) == (0.25, 0.75)
    assert room.pause(0.25, 99) == (0.25, 5.25)
    later(OF_LATE + 0.1)
    assert room.pause(3600.0, 1)[0] == LONGEST


def room_of(count: int, **limits: Any) -> tuple[WaitingRoom, list[ClaimedTask]]:
    """Return a room where ``count`` tasks wait, and the tasks."""
    handler = handler_of(lambda task: None, **limits)
    room = WaitingRoom(handler, Permits("default", handler, Held(ExecutorOptions()), timedelta(seconds=15)))
    add_some(count)
    tasks = claim(registered(), limit=count)
    for task in tasks:
        room.enter(task, "")
    return room, tasks


@pytest.mark.django_db
def test_the_speed_of_late(later: Later) -> None:
    room, tasks = room_of(30, max_concurrent=10)
    later(0.0)
    assert room.speed == 0
    room.note_granted(tasks[:10], 20)
    later(1.0)
    assert room.short_for == pytest.approx(1.0)
    assert room.speed == pytest.approx(10.0)
    later(9.0)
    assert room.speed == 0
    room.note_granted(tasks[10:20], 20)
    later(0.5)
    assert room.speed == pytest.approx(10 / SPAN)


@pytest.mark.django_db
def test_threads_are_not_permits(later: Later) -> None:
    """As many permits as were asked for were granted."""
    room, tasks = room_of(30, max_concurrent=10)
    later(0.0)
    room.note_granted(tasks[:10], 10)
    later(5.0)
    assert room.short_for == 0


@pytest.mark.django_db
def test_the_speed_of_a_rate_is_its_own_in_the_long_run(later: Later) -> None:
    """It begins with a burst."""
    room, tasks = room_of(30, rate="60/m")
    later(0.0)
    room.note_granted(tasks[:20], 30)
    later(0.1)
    assert room.speed == pytest.approx(1.0)


def keyed_room() -> WaitingRoom:
    handler = handler_of(lambda task: None, max_concurrent=1, concurrency_key=lambda self, task: "never asked here")
    return WaitingRoom(handler, Permits("default", handler, Held(ExecutorOptions()), timedelta(seconds=15)))


def test_however_many_keys_there_are_a_limited_number_waits() -> None:
    """Claims that were under way when the room was full find a place still, and no more."""
    room = keyed_room()
    for number in range(3 * PER_ROOM):
        assert room.has_place(str(number))
        room.enter(a_task(number), str(number))
    assert not room.has_place("one more")


def test_a_key_that_was_refused_is_asked_for_last() -> None:
    """Otherwise a key whose slots are all taken would be looked at first each time."""
    room = keyed_room()
    tasks = [a_task(number) for number in range(4)]
    for task, key in zip(tasks, ["busy", "busy", "free", "free"], strict=True):
        room.enter(task, key)
    assert list(room.candidates()) == tasks
    room.note_granted(tasks[2:3], 4)
    room.leave(tasks[2])
    assert list(room.candidates()) == [tasks[3], tasks[0], tasks[1]]
