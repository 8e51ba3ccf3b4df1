"""The claims that a process holds wake its poller and its gate when these have something to do, and only then."""

from tests.executor.test_held import OPTIONS, holding

FULL = 2 * (OPTIONS.threads + 2 * OPTIONS.batch_size)
"""The number of unsettled claims at which no more are claimed."""


def test_it_wakes_the_gate_when_a_claim_ends_while_tasks_are_parked() -> None:
    """The claim may have given back a permit that they wait for."""
    held, tasks = holding(3)
    claims = [task.claim for task in tasks]
    held.remove(claims[:1])
    assert not held.wake_gate.is_set(), "no task waits for it"
    held.park(claims[1:2])
    assert not held.wake_gate.is_set(), "the gate itself parked it"
    held.remove(claims[2:])
    assert held.wake_gate.is_set()


def test_the_gate_finds_the_claim_gone() -> None:
    held, tasks = holding(2)
    left: list[int] = []
    held.wake_gate.set = lambda: left.append(len(held))  # type: ignore[method-assign]
    held.park([tasks[0].claim])
    held.remove([tasks[1].claim])
    assert left == [1]


def test_it_wakes_the_poller_when_a_claim_is_settled_and_too_many_were_not() -> None:
    held, tasks = holding(FULL)
    claims = [task.claim for task in tasks]
    held.finish(claims)
    assert held.is_full
    assert not held.wake_poller.is_set(), "it would claim nothing"
    held.remove(claims[:1])
    assert held.wake_poller.is_set()


def test_it_does_not_wake_the_poller_when_there_was_room_already() -> None:
    """The end of its run has woken the poller: a settlement makes no more room."""
    held, tasks = holding(FULL - 1)
    claims = [task.claim for task in tasks]
    held.finish(claims)
    assert held.wake_poller.is_set()
    held.wake_poller.clear()
    held.remove(claims)
    assert not held.wake_poller.is_set()


def test_nor_while_enough_wait_for_threads() -> None:
    held, tasks = holding(FULL)
    held.remove([tasks[0].claim])
    assert not held.is_full
    assert not held.wake_poller.is_set()


def test_it_wakes_the_poller_when_fewer_than_half_of_the_target_are_left() -> None:
    held, tasks = holding(6)
    held.room_for(10)
    held.finish([tasks[0].claim])
    assert not held.wake_poller.is_set()
    held.finish([tasks[1].claim])
    assert held.wake_poller.is_set()


def test_it_wakes_the_poller_when_what_waited_for_a_thread_is_released() -> None:
    """No run ends that would wake it."""
    held, tasks = holding(2)
    held.release(tasks[:1])
    assert held.wake_poller.is_set()


def test_it_does_not_when_what_waited_for_permits_is_released() -> None:
    """It took no room, and would be claimed in vain once more."""
    held, tasks = holding(2)
    held.park([tasks[0].claim])
    held.release(tasks[:1])
    assert not held.wake_poller.is_set()
