"""The claims that a process holds, counted right whatever happens to them, and in whichever order."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Thread

import pytest
from django.db import InterfaceError, OperationalError

from django_delayed_tasks import clock
from django_delayed_tasks.executor import held as held_module
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.claimer import Kind
from django_delayed_tasks.leases import LeasedResource, Pool
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, lend
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement, released
from tests.executor.parts import add, claim, held_with, registered

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
OPTIONS = ExecutorOptions(threads=2, batch_size=4)


def a_task(number: int) -> ClaimedTask:
    return ClaimedTask(number, 1, "code", str(number), NOW, None, "default", 0, 1, 0, "default")


def holding(count: int) -> tuple[Held, list[ClaimedTask]]:
    held = held_with(OPTIONS)
    tasks = [a_task(number) for number in range(count)]
    held.add(tasks)
    return held, tasks


def queued(held: Held) -> list[Settlement]:
    """Take what the settler has yet to write."""
    taken = []
    while not held.ended.empty():
        settlement = held.ended.get()
        assert settlement
        taken.append(settlement)
    return taken


def counts(held: Held) -> tuple[int, int]:
    """(held, unfinished)."""
    return len(held), held.capacity.unfinished


def test_what_is_settled_is_counted_over_all_calls() -> None:
    held, tasks = holding(3)
    held.remove([tasks[0].claim])
    held.remove([tasks[1].claim, tasks[2].claim])
    assert held.settled == 3


def test_each_stage_is_counted_as_what_it_is() -> None:
    held, tasks = holding(4)
    claims = [task.claim for task in tasks]
    assert counts(held) == (4, 4)
    held.capacity.join_batch(claims[3:])
    assert counts(held) == (4, 3)
    held.end(claims[2:], ())
    assert counts(held) == (4, 2)
    held.remove(claims)
    assert counts(held) == (0, 0)
    assert (held.capacity.claimed, held.settled) == (4, 4)


def test_what_has_ended_does_not_come_back() -> None:
    """One that was run in a call with others, and was settled with them, waits for no thread any more."""
    held, tasks = holding(2)
    claims = [task.claim for task in tasks]
    held.capacity.join_batch(claims[1:])
    held.end(claims, ())
    held.capacity.leave_batch(claims)
    assert held.capacity.unfinished == 0


def test_runs_in_one_call_count_as_one() -> None:
    """The mean duration is that of calls, not of tasks."""
    held, tasks = holding(10)
    claims = [task.claim for task in tasks]
    held.capacity.join_batch(claims[1:])
    held.end(claims, (), 2.0)
    assert held.capacity.paces[Kind.THREAD].ended == (1, 2.0)


def test_a_claim_that_comes_twice_is_one() -> None:
    """A server that lost its last commits gives the same version to the next claim, while the first run continues."""
    held, tasks = holding(1)
    held.add([a_task(0)])
    assert counts(held) == (1, 1)
    held.remove([tasks[0].claim])
    assert counts(held) == (0, 0)


class Number(int):
    """Calls ``when_hashed()`` in the middle of what looks at a claim with this number."""

    def __init__(self, value: int) -> None:
        self.when_hashed: Callable[[], None] = lambda: None

    def __hash__(self) -> int:
        self.when_hashed()
        return int.__hash__(self)


def test_a_claim_that_is_won_meanwhile_does_not_disturb_the_look_at_all_claims() -> None:
    held, tasks = holding(100)
    number = Number(1000)
    held.add([a_task(number)])
    threads: list[Thread] = []

    def claim_meanwhile() -> None:
        number.when_hashed = lambda: None
        threads.append(Thread(target=held.add, args=([a_task(1001)],)))
        threads[0].start()
        threads[0].join(1.0)  # it may have to wait until claims() has returned all

    number.when_hashed = claim_meanwhile
    claims = held.claims()
    for thread in threads:
        thread.join(60)
    number.when_hashed = lambda: None
    assert {task.claim for task in tasks} < claims


class TestRelease:
    """A task that will not be started here was not claimed, and is held until the settler has released it."""

    def test_it_is_queued_and_no_longer_counts_as_claimed(self) -> None:
        held, tasks = holding(3)
        held.release(tasks[:2], timedelta(seconds=7))
        assert queued(held) == [released(task, timedelta(seconds=7)) for task in tasks[:2]]
        assert (held.capacity.claimed, held.settled) == (1, 0)
        assert counts(held) == (3, 1)
        held.remove([tasks[0].claim])
        assert (held.capacity.claimed, held.settled) == (1, 1)
        assert counts(held) == (2, 1)

    def test_it_is_claimable_at_once_unless_told_otherwise(self) -> None:
        held, tasks = holding(1)
        held.release(tasks)
        assert queued(held) == [released(tasks[0])]

    @pytest.mark.parametrize("has_ended", [False, True])
    def test_from_any_stage(self, has_ended: bool) -> None:
        held, tasks = holding(2)
        if has_ended:
            held.end([tasks[0].claim], ())
        else:
            held.capacity.join_batch([tasks[0].claim])
        held.release(tasks[:1])
        assert counts(held) == (2, 1)
        assert held.capacity.claimed == 1

    def test_of_a_claim_that_is_no_longer_held(self) -> None:
        """It is fenced: if another executor has the task, nothing is written."""
        held, tasks = holding(2)
        held.remove([tasks[0].claim])
        held.release(tasks[:1])
        assert queued(held) == [released(tasks[0])]
        assert (held.capacity.claimed, len(held)) == (2, 1)

    def test_an_end_is_queued_and_held_until_it_is_written(self) -> None:
        held, tasks = holding(1)
        settlement = released(tasks[0])
        held.put_end(settlement)
        assert queued(held) == [settlement]
        assert tasks[0].claim in held


def test_what_is_dropped_was_not_claimed_and_is_not_released() -> None:
    """Other executors own it now."""
    held, tasks = holding(3)
    held.drop(task for task in tasks[:2])
    assert (held.capacity.claimed, held.settled) == (1, 2)
    assert held.tasks() == tasks[2:]
    assert counts(held) == (1, 1)
    assert queued(held) == []


@pytest.mark.django_db(transaction=True)
class TestDatabase:
    @pytest.fixture
    def tasks(self) -> list[ClaimedTask]:
        for num in "ab":
            add(num)
        return claim(registered())

    @pytest.fixture
    def held(self, tasks: list[ClaimedTask]) -> Held:
        held = held_with(OPTIONS)
        held.add(tasks)
        return held

    @pytest.fixture
    def resource(self, tasks: list[ClaimedTask]) -> LeasedResource:
        """The only resource of a pool, lent to the first task."""
        pool = Pool("pool")
        pool.add("resource")
        resource = LeasedResource(pool, timedelta(seconds=60), 0.0)
        resource.acquire()
        lend(tasks[0], resource)
        return resource

    def is_free(self) -> bool:
        return Resource.objects.get().busy_before <= clock.DatabaseClock().now()

    def test_a_release_now_is_written_before_it_returns(self, held: Held, tasks: list[ClaimedTask]) -> None:
        held.release_now(tasks[:1])
        row = Task.objects.get(biz_num="a")
        assert (row.status, row.attempts) == (TaskStatus.PENDING, 0)
        assert Task.objects.get(biz_num="b").status == TaskStatus.RUNNING
        assert [task.biz_num for task in held.tasks()] == ["b"]
        assert (held.capacity.claimed, held.settled) == (1, 1)
        assert queued(held) == []

    def test_or_the_tasks_are_still_held(
        self, held: Held, tasks: list[ClaimedTask], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(alias: str, settlements: list[Settlement]) -> int:
            raise OperationalError(2006, "gone away")

        monkeypatch.setattr(held_module, "settle", fail)
        with pytest.raises(OperationalError):
            held.release_now(tasks[:1])
        assert held.tasks() == tasks
        assert (held.capacity.claimed, held.settled, held.capacity.unfinished) == (2, 0, 2)

    @pytest.mark.usefixtures("resource")
    @pytest.mark.parametrize("how", ["release", "drop"])
    def test_the_resource_is_given_back(self, held: Held, tasks: list[ClaimedTask], how: str) -> None:
        assert not self.is_free()
        getattr(held, how)(tasks)
        assert self.is_free()
        assert tasks[0].resource is None

    @pytest.mark.parametrize("error", [OperationalError(2006, "gone away"), InterfaceError(0, "")])
    @pytest.mark.parametrize("how", ["release", "drop"])
    def test_a_resource_that_cannot_be_given_back_keeps_no_claim(
        self,
        held: Held,
        tasks: list[ClaimedTask],
        resource: LeasedResource,
        how: str,
        error: Exception,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        def fail() -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(resource, "release", fail)
            getattr(held, how)(tasks)
        resource.release()
        assert "it is free when its lease is over" in caplog.text
        assert held.capacity.claimed == 0
        assert len(settle("default", queued(held)).became) == (2 if how == "release" else 0)
