"""The end of a run and the next run take no lock. Many threads do both at once: nothing is counted twice or lost."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from threading import Barrier, Thread

import pytest

from django_delayed_tasks.executor.room.claimer import Kind
from django_delayed_tasks.executor.running.run_queue import RunQueue
from django_delayed_tasks.store.sql.fences import Claim
from tests.executor.parts import held_with
from tests.executor.test_held import OPTIONS, a_task, holding

pytestmark = pytest.mark.per_database

THREADS, EACH = 8, 400


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Let threads lose the interpreter after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(*works: Callable[[], None]) -> None:
    """Call each in a thread of its own, all from the same moment on."""
    barrier = Barrier(len(works))
    errors: list[BaseException] = []

    def call(work: Callable[[], None]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=call, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not errors


def test_each_end_is_counted_once_while_others_are_added_and_settled() -> None:
    held, tasks = holding(THREADS * EACH)
    claims = [task.claim for task in tasks]

    def finish(mine: list[Claim]) -> Callable[[], None]:
        def work() -> None:
            for claim in mine:
                held.end([claim], (), 1.0)

        return work

    def add() -> None:
        for number in range(EACH):
            held.add([a_task(THREADS * EACH + number)])

    def settle() -> None:
        for claim in claims[:EACH]:
            held.remove([claim])
            assert held.capacity.paces[Kind.THREAD].ended[0] <= len(claims)

    twice = [finish(claims[number::THREADS]) for number in range(THREADS)] * 2
    at_once(*twice, add, settle)
    # What was settled before its end came was no run that ended.
    runs, seconds = held.capacity.paces[Kind.THREAD].ended
    assert len(claims) - EACH <= runs <= len(claims)
    assert seconds == runs
    assert (len(held), held.capacity.unfinished, held.settled) == (len(claims), EACH, EACH)


class Nowhere:
    """In place of the event loop: no code of these tests is async."""


def test_each_batch_goes_to_one_thread_or_is_taken_back() -> None:
    held = held_with(OPTIONS)
    queue = RunQueue(held, Nowhere())  # type: ignore[arg-type]
    tasks = [a_task(number) for number in range(THREADS * EACH)]
    held.add(tasks)
    got: list[list[int]] = [[] for _ in range(THREADS)]
    back: list[int] = []

    def take(mine: list[int]) -> Callable[[], None]:
        def work() -> None:
            while (run := queue.get()) is not None:
                mine.extend(task.id for task in run.tasks)

        return work

    def put() -> None:
        for number, task in enumerate(tasks):
            (queue.put_permitted if number % 2 else queue.put)([task])
            if number % 50 == 0:
                back.extend(task.id for task in queue.take_back())
        for _ in range(THREADS):
            queue.end()

    at_once(*map(take, got), put)
    taken = Counter(number for mine in got for number in mine) + Counter(back)
    assert taken == Counter(range(len(tasks)))
    assert (held.capacity.lines.waiting, len(queue)) == (0, 0)
