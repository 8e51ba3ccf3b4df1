"""How many tasks an executor wants: enough for its threads, no more than it can start and settle soon."""

from django_delayed_tasks.executor.claiming.demand import Demand
from django_delayed_tasks.executor.held import Held
from tests.executor.test_inflight import a_task

THREADS, BATCH = 2, 10
MOST = THREADS + 2 * BATCH
"""That are held of fast handlers."""


def ended(inflight: Held, count: int, seconds: float = 0.0, first: int = 0) -> None:
    """End ``count`` runs of this length; they still have to be settled."""
    tasks = [a_task(number) for number in range(first, first + count)]
    inflight.add(tasks)
    inflight.finish([task.claim for task in tasks], seconds)


def fast(inflight: Held) -> Demand:
    """The demand of an executor whose handlers were fast so far."""
    demand = Demand(inflight, THREADS, BATCH)
    ended(inflight, 1, 0.001)
    demand.wanted()
    inflight.remove(inflight.claims())
    return demand


def test_one_claim_is_bounded_however_many_threads_there_are() -> None:
    assert Demand(Held(), 100, BATCH).wanted() == BATCH
    assert Demand(Held(), 5, BATCH).wanted() == 5


def test_nothing_while_too_much_waits_to_be_settled() -> None:
    """The database takes no settlements: what was claimed now would only wait with the rest."""
    inflight = Held()
    demand = Demand(inflight, THREADS, BATCH)
    ended(inflight, 2 * MOST - 1)
    assert demand.wanted() > 0
    assert not demand.waits_for_settler
    ended(inflight, 1, first=1000)
    assert demand.wanted() == 0
    assert demand.waits_for_settler
    inflight.remove([a_task(1000).claim])
    assert demand.wanted() > 0
    assert not demand.waits_for_settler


def test_more_as_soon_as_half_of_it_has_ended() -> None:
    inflight = Held()
    demand = fast(inflight)
    assert demand.refill_below == MOST // 2
    tasks = [a_task(number) for number in range(MOST // 2)]
    inflight.add(tasks)
    assert demand.wanted() == 0
    inflight.remove([tasks[0].claim])
    assert demand.wanted() == BATCH


def test_what_waits_for_a_limit_takes_no_place() -> None:
    inflight = Held()
    demand = Demand(inflight, THREADS, BATCH)
    tasks = [a_task(number) for number in range(2 * MOST)]
    inflight.add(tasks)
    assert demand.wanted() == 0
    inflight.park(task.claim for task in tasks)
    assert demand.wanted() == THREADS
