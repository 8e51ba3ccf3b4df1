"""The claims that a process holds wake its poller and its lanes when these have something to do, and only then."""

from django_delayed_tasks.executor.held import Held
from tests.executor.test_held import OPTIONS, a_task, holding

FULL = 2 * (OPTIONS.threads + 2 * OPTIONS.batch_size)
"""The number of unsettled claims at which no more are claimed."""


def test_it_wakes_the_lanes_when_a_claim_with_permits_ends() -> None:
    """The claim may have given back a permit that other tasks wait for."""
    held, tasks = holding(2)
    limited = [a_task(number) for number in (7, 8)]
    held.add(limited, is_limited=True)
    held.remove([tasks[0].claim])
    assert not held.capacity.limited.wake.is_set(), "it had no permit"
    left: list[int] = []
    held.capacity.limited.wake.set = lambda: left.append(len(held))  # type: ignore[method-assign]
    held.remove([limited[0].claim])
    assert left == [2], "the claim is gone by then"


def test_it_leaves_a_poller_asleep_that_has_claimed_all() -> None:
    """Room is of no use to it."""
    held, tasks = holding(1)
    held.capacity.plain.rest()
    held.end([tasks[0].claim], ())
    assert not held.capacity.plain.wake.is_set()


def test_it_wakes_the_poller_when_a_claim_is_settled_and_too_many_were_not() -> None:
    held, tasks = holding(FULL)
    claims = [task.claim for task in tasks]
    held.end(claims, ())
    assert held.capacity.is_full
    assert not held.capacity.plain.wake.is_set(), "it would claim nothing"
    held.remove(claims[:1])
    assert held.capacity.plain.wake.is_set()


def test_it_does_not_wake_the_poller_when_there_was_room_already() -> None:
    """The end of its run has woken the poller: a settlement makes no more room."""
    held, tasks = holding(FULL - 1)
    claims = [task.claim for task in tasks]
    held.end(claims, ())
    assert held.capacity.plain.wake.is_set()
    held.capacity.plain.wake.clear()
    held.remove(claims)
    assert not held.capacity.plain.wake.is_set()


def test_nor_while_enough_wait_for_threads() -> None:
    held, tasks = holding(FULL)
    held.remove([tasks[0].claim])
    assert not held.capacity.is_full
    assert not held.capacity.plain.wake.is_set()


def test_it_wakes_the_poller_when_fewer_than_half_of_the_target_are_left() -> None:
    held, tasks = holding(6)
    held.capacity._refill_below = 5
    held.end([tasks[0].claim], ())
    assert not held.capacity.plain.wake.is_set()
    held.end([tasks[1].claim], ())
    assert held.capacity.plain.wake.is_set()


def test_it_wakes_the_poller_when_what_waited_for_a_thread_is_released() -> None:
    """No run ends that would wake it."""
    held, tasks = holding(2)
    held.release(tasks[:1])
    assert held.capacity.plain.wake.is_set()


class MeanwhileAdded:
    """The lock of held claims; another thread adds a task with permits each time that it is free again."""

    def __init__(self, held: Held) -> None:
        self._held, self._lock = held, held._lock

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        self._held._lock = self._lock
        self._held.add([a_task(100)], is_limited=True)


def test_it_wakes_the_lanes_even_if_another_task_with_permits_is_claimed_in_that_moment() -> None:
    held, _ = holding(0)
    held.add([a_task(1)], is_limited=True)
    held.capacity.limited.wake.clear()
    held._lock = MeanwhileAdded(held)  # type: ignore[assignment]
    held.remove([a_task(1).claim])
    assert held.capacity.limited.wake.is_set()
