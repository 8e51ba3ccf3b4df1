"""The claims that a process holds, counted right whatever happens to them, and in whichever order."""

from collections.abc import Callable
from datetime import UTC, datetime
from threading import Thread

from django_delayed_tasks.executor.inflight import InFlight
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def a_task(number: int) -> ClaimedTask:
    return ClaimedTask(number, 1, "code", str(number), NOW, None, "default", 0, 1, 0, "default")


def holding(count: int) -> tuple[InFlight, list[ClaimedTask]]:
    inflight = InFlight()
    tasks = [a_task(number) for number in range(count)]
    inflight.add(tasks)
    return inflight, tasks


def counts(inflight: InFlight) -> tuple[int, int, int]:
    """(held, unfinished, unsettled)."""
    return len(inflight), inflight.unfinished, inflight.unsettled


def test_each_stage_is_counted_as_what_it_is() -> None:
    inflight, tasks = holding(4)
    claims = [task.claim for task in tasks]
    assert counts(inflight) == (4, 4, 4)
    inflight.park(claims[:2])
    assert counts(inflight) == (4, 2, 2)
    inflight.unpark(claims[:1])
    inflight.join_batch(claims[3:])
    assert counts(inflight) == (4, 2, 3)
    inflight.finish(claims[2:])
    assert counts(inflight) == (4, 1, 3)
    inflight.remove(claims)
    assert counts(inflight) == (0, 0, 0)
    assert (inflight.claimed, inflight.settled) == (4, 4)


def test_what_is_settled_is_counted_over_all_calls() -> None:
    inflight, tasks = holding(3)
    inflight.remove([tasks[0].claim])
    inflight.remove([tasks[1].claim, tasks[2].claim])
    assert inflight.settled == 3


def test_what_has_ended_does_not_come_back() -> None:
    """One that was run in a call with others, and was settled with them, waits for no thread any more."""
    inflight, tasks = holding(2)
    claims = [task.claim for task in tasks]
    inflight.join_batch(claims[1:])
    inflight.finish(claims)
    inflight.leave_batch(claims)
    inflight.unpark(claims)
    assert inflight.unfinished == 0


def test_runs_in_one_call_count_as_one() -> None:
    """The mean duration is that of calls, not of tasks."""
    inflight, tasks = holding(10)
    claims = [task.claim for task in tasks]
    inflight.join_batch(claims[1:])
    inflight.finish(claims, 2.0)
    assert inflight.work_done == (1, 2.0)


def test_a_claim_that_comes_twice_is_one() -> None:
    """A server that lost its last commits gives the same version to the next claim, while the first run continues."""
    inflight, tasks = holding(1)
    inflight.add([a_task(0)])
    assert counts(inflight) == (1, 1, 1)
    inflight.remove([tasks[0].claim])
    assert counts(inflight) == (0, 0, 0)


def test_what_is_given_back_was_not_claimed() -> None:
    inflight, tasks = holding(2)
    inflight.give_back(tasks[0].claim)
    assert (inflight.claimed, inflight.unfinished) == (1, 1)
    inflight.remove([tasks[0].claim])
    inflight.give_back(tasks[0].claim)
    assert (inflight.claimed, len(inflight)) == (1, 1)


def test_an_end_is_told() -> None:
    inflight, tasks = holding(1)
    left: list[int] = []
    inflight.when_removed = lambda: left.append(len(inflight))
    inflight.remove([tasks[0].claim])
    assert left == [0]


class Number(int):
    """Calls ``when_hashed()`` in the middle of what looks at a claim with this number."""

    def __init__(self, value: int) -> None:
        self.when_hashed: Callable[[], None] = lambda: None

    def __hash__(self) -> int:
        self.when_hashed()
        return int.__hash__(self)


def test_a_claim_that_is_won_meanwhile_does_not_disturb_the_look_at_all_claims() -> None:
    inflight, tasks = holding(100)
    number = Number(1000)
    inflight.add([a_task(number)])
    threads: list[Thread] = []

    def claim_meanwhile() -> None:
        number.when_hashed = lambda: None
        threads.append(Thread(target=inflight.add, args=([a_task(1001)],)))
        threads[0].start()
        threads[0].join(1.0)  # it may have to wait until all claims are told

    number.when_hashed = claim_meanwhile
    claims = inflight.claims()
    for thread in threads:
        thread.join(60)
    number.when_hashed = lambda: None
    assert {task.claim for task in tasks} < claims
