"""How many tasks an executor wants: enough for its threads, no more than it can start and settle soon."""

from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.capacity import Capacity
from tests.executor.parts import held_with
from tests.executor.test_held import a_task

THREADS, BATCH = 2, 10
MOST = THREADS + 2 * BATCH
"""The most unfinished claims that are held of fast handlers."""
OPTIONS = ExecutorOptions(threads=THREADS, batch_size=BATCH)


def ended(held: Held, count: int, seconds: float = 0.0, first: int = 0) -> None:
    """End ``count`` runs of this length; they still have to be settled."""
    tasks = [a_task(number) for number in range(first, first + count)]
    held.add(tasks)
    held.end([task.claim for task in tasks], (), seconds)


def fast() -> Held:
    """The claims of an executor whose handlers were fast so far."""
    held = held_with(OPTIONS)
    ended(held, 1, 0.001)
    held.capacity.room()
    held.remove(held.claims())
    return held


def test_one_claim_is_bounded_however_many_threads_there_are() -> None:
    for threads, wanted in ((100, BATCH), (5, 5)):
        assert Capacity(ExecutorOptions(threads=threads, batch_size=BATCH)).room().threads == wanted


def test_what_finds_a_thread_at_once() -> None:
    """As many tasks as there are threads that could run them."""
    held = held_with(OPTIONS)
    held.add([a_task(number) for number in range(THREADS)])
    assert held.capacity.has_idle_threads
    held.capacity.lose_connection("worker-1", RuntimeError())
    assert not held.capacity.has_idle_threads
    held.capacity.regain_connection("worker-1")
    held.add([a_task(THREADS)])
    assert not held.capacity.has_idle_threads


def test_nothing_while_too_much_waits_to_be_settled() -> None:
    """The database takes no settlements: what was claimed now would only wait with the rest."""
    held = held_with(OPTIONS)
    capacity = held.capacity
    ended(held, 2 * MOST - 1)
    assert capacity.room().threads > 0
    assert not capacity.is_full
    ended(held, 1, first=1000)
    assert capacity.room().threads == 0
    assert capacity.is_full
    held.remove([a_task(1000).claim])
    assert capacity.room().threads > 0
    assert not capacity.is_full


def test_more_as_soon_as_half_of_it_has_ended() -> None:
    held = fast()
    capacity = held.capacity
    tasks = [a_task(number) for number in range(MOST // 2)]
    held.add(tasks)
    assert capacity.room().threads == 0
    assert not capacity.wants_more
    held.remove([tasks[0].claim])
    assert capacity.wants_more
    assert capacity.room().threads == BATCH
