"""``once=True`` while others add, and while the run of the same task is being settled: it succeeds once."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from django_delayed_tasks import Task, add_task, add_tasks, api
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.models import Success
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.states import AddAction, IfExistsName, NextState
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.transactions import is_transient
from tests.executor.parts import claim
from tests.executor.runs import run_one
from tests.races.blocking import wait_until_blocked
from tests.recurring.machine import NOON, Machine
from tests.threads import DatabaseThread, start_thread

ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])
FILTERED, KEPT = AddAction.FILTERED, AddAction.KEPT


@pytest.fixture(autouse=True)
def _noon() -> Iterator[None]:
    """Stop the clock for all threads of the test."""
    with frozen_at(NOON):
        yield


def add(mode: IfExistsName = "replace", num: str = "1") -> AddAction:
    return add_task(Task(biz_code="recurring", biz_num=num), once=True, if_exists=mode).action


def add_in_bulk() -> AddAction:
    return AddAction.REPLACED if add_tasks([Task(biz_code="recurring", biz_num="1")], once=True) else FILTERED


def add_in_a_transaction() -> AddAction:
    while True:  # only its caller can try it again
        try:
            with transaction.atomic():
                return add()
        except DatabaseError as error:
            if not is_transient(error):
                raise


EACH_WAY: list[Callable[[], AddAction]] = [
    add,
    lambda: add("keep"),
    lambda: add("latest"),
    add_in_bulk,
    add_in_a_transaction,
]
FIFTY = EACH_WAY * 10


def begin(actions: list[Callable[[], Any]]) -> list[DatabaseThread[Any]]:
    """Start each in a thread with a connection of its own, all released at the same moment."""
    barrier = threading.Barrier(len(actions))

    def act(action: Callable[[], Any]) -> Any:
        TaskRow.objects.exists()  # connected
        barrier.wait()
        return action()

    return [start_thread(lambda action=action: act(action)) for action in actions]  # type: ignore[misc]


def claimed(machine: Machine) -> ClaimedTask:
    add()
    [task] = claim(machine.executor)
    return task


def ended(machine: Machine, task: ClaimedTask) -> Settlement:
    """Run the task with success, and return its settlement, which is yet to be written."""
    settlement = run_one(task, machine.handler, machine.clock)
    assert settlement
    return settlement


def is_done_for_good(machine: Machine) -> bool:
    """Return whether there was one run, it is remembered, and nothing is left to run."""
    return (len(machine.seen), Success.objects.count(), TaskRow.objects.count()) == (1, 1, 0)


@pytest.mark.django_db(transaction=True)
class TestRaces:
    def test_fifty_add_what_is_new(self, machine: Machine) -> None:
        assert FILTERED not in {thread.result() for thread in begin(FIFTY)}
        assert TaskRow.objects.count() == 1
        assert machine.run_at(0) is NextState.GONE
        assert {thread.result() for thread in begin(FIFTY)} == {FILTERED}
        assert is_done_for_good(machine)

    def test_fifty_create_one(self, machine: Machine) -> None:
        results = Counter(thread.result() for thread in begin([lambda: add("keep")] * 50))
        assert results == {AddAction.CREATED: 1, KEPT: 49}

    @ENDS
    def test_fifty_add_while_the_run_is_being_settled(self, machine: Machine, end: str) -> None:
        """All have found that it is not done yet, and wait for the row that the settlement has locked."""
        task = claimed(machine)
        settlement = ended(machine, task)
        with transaction.atomic():
            assert settle("default", [settlement]).became == {task.claim: NextState.GONE}
            adders = begin(FIFTY)
            wait_until_blocked(*adders)
            transaction.set_rollback(end == "rollback")
        results = {adder.result() for adder in adders}
        assert (results == {FILTERED}) == (end == "commit")
        if end == "rollback":
            assert FILTERED not in results
            assert settle("default", [settlement]).became == {task.claim: NextState.GONE}
        assert {way() for way in EACH_WAY} == {FILTERED}
        assert is_done_for_good(machine)

    @ENDS
    def test_an_add_that_the_settlement_waits_for(self, machine: Machine, end: str) -> None:
        task = claimed(machine)
        settlement = ended(machine, task)
        with transaction.atomic():
            assert add() is AddAction.DEFERRED
            settling = start_thread(lambda: settle("default", [settlement]))
            wait_until_blocked(settling)
            transaction.set_rollback(end == "rollback")
        assert settling.result().became == {task.claim: NextState.GONE}
        assert is_done_for_good(machine)

    def test_fifty_add_and_one_settles(self, machine: Machine) -> None:
        """Whichever comes first, nothing is left that would run again."""
        for _ in range(3):
            machine.seen.clear()
            settlement = ended(machine, claimed(machine))
            *adders, settling = begin([*FIFTY, partial(settle, "default", [settlement])])
            assert set(settling.result().became.values()) == {NextState.GONE}
            for adder in adders:
                adder.result()
            assert is_done_for_good(machine)
            assert api.forget("recurring", "1")

    def test_bulks_that_overlap_what_has_been_done(self, machine: Machine) -> None:
        """Half of a hundred are done; eight add all of them, each in an order of its own."""
        numbers = [str(number) for number in range(100)]
        Success.objects.bulk_create(
            Success(biz_code="recurring", biz_num=number, succeeded_at=NOON) for number in numbers[:50]
        )
        orders = [random.Random(seed).sample(numbers, 100) for seed in range(8)]
        bulks = [[Task(biz_code="recurring", biz_num=number) for number in order] for order in orders]
        threads = begin([lambda bulk=bulk: add_tasks(bulk, once=True, batch_size=30) for bulk in bulks])  # type: ignore[misc]
        assert [thread.result() for thread in threads] == [50] * 8
        assert set(TaskRow.objects.values_list("biz_num", flat=True)) == set(numbers[50:])
