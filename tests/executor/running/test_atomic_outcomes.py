"""What an atomic handler returns and must not: its effects are undone, as if it had raised that."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction

from django_delayed_tasks import Done, Fail, Retry, Task, TaskRun, add_task
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.executor import project
from django_delayed_tasks.models import Success
from django_delayed_tasks.states import AddAction, RunOutcome
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql import kept_connections
from tests.executor.batches import batched, claim_some, effects, numbers, outcomes, write, write_all
from tests.executor.parts import add, claim, handler_of, registered
from tests.executor.runs import run, run_one
from tests.threads import in_thread

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]

NOT_ACCEPTED = [Done(result={"total": Decimal("9.90")}), Done(biz_ext={1, 2}), True, "done"]


@pytest.mark.parametrize("returned", NOT_ACCEPTED)
def test_a_run(returned: Any) -> None:
    def handle(task: Any) -> Any:
        write(task)
        return returned

    [task] = claim_some(1)
    settlement = run_one(task, handler_of(handle, atomic=True), DatabaseClock())
    assert settlement
    assert settlement.outcome == RunOutcome.FAILED
    assert settlement.error.startswith("Handler (code) returned ")
    assert effects() == set()


@pytest.mark.parametrize("returned", [Retry(), Fail("no"), Done("x"), timedelta(hours=1)])
def test_what_may_be_returned_keeps_them(returned: Any) -> None:
    def handle(task: Any) -> Any:
        write(task)
        return returned

    def run_in_a_worker() -> Settlement | None:
        with kept_connections.of_thread("default"):
            return project.within(task, run_one, task, handler_of(handle, atomic=True), DatabaseClock())

    [task] = claim_some(1)
    assert in_thread(run_in_a_worker) is None
    assert effects() == {"0"}


@pytest.mark.parametrize("returned", [None, Done("x")])
def test_what_is_to_be_done_once_has_been_done(returned: Any) -> None:
    """It is remembered in the transaction of the effects, by whichever way the run is settled."""

    def add_once() -> AddAction:
        return add_task(Task(biz_code="code", biz_num="1"), once=True).action

    add_once()
    [task] = claim(registered())
    assert run_one(task, handler_of(lambda task: returned, atomic=True), DatabaseClock()) is None
    assert not Task.objects.exists()
    assert add_once() is AddAction.FILTERED


def test_what_failed_has_not_been_done() -> None:
    add_task(Task(biz_code="code", biz_num="1"), once=True)
    [task] = claim(registered())
    assert run_one(task, handler_of(lambda task: Fail("no"), atomic=True), DatabaseClock()) is None
    assert not Success.objects.exists()


@pytest.mark.parametrize(
    ("keep_history", "kept"),
    [("all", [RunOutcome.DONE, RunOutcome.FAILED]), ("failures", [RunOutcome.FAILED]), ("none", [])],
)
def test_the_history_has_what_the_handler_wants_kept(keep_history: str, kept: list[RunOutcome]) -> None:
    handler = handler_of(lambda task: Fail("no") if task.biz_ext else None, atomic=True, keep_history=keep_history)
    for num, fails in (("good", False), ("bad", True)):
        add(num, biz_ext=fails)
    for task in claim(registered()):
        assert run_one(task, handler, DatabaseClock()) is None
    assert list(TaskRun.objects.order_by("id").values_list("outcome", flat=True)) == kept


def test_not_within_another_transaction() -> None:
    """What is not committed when the run ends must not count as settled."""
    handler = handler_of(write, atomic=True)
    [task] = claim_some(1)
    with transaction.atomic():
        settlement = run_one(task, handler, DatabaseClock())
    assert settlement
    assert settlement.outcome == RunOutcome.RETRIED
    assert "durable" in settlement.error
    assert effects() == set()


OF_A_BATCH: dict[str, Callable[[list[Any]], Any]] = {
    "one that is none": lambda tasks: [True if task.biz_num == "1" else None for task in tasks],
    "an exception": lambda tasks: [ValueError("bad") if task.biz_num == "1" else None for task in tasks],
}


@pytest.mark.parametrize("way", OF_A_BATCH)
def test_a_batch(way: str) -> None:
    """Each is run again by itself: one that is wrong does not hold the rest. A wrong result is final for its task."""

    def handle_batch(tasks: list[Any]) -> Any:
        write_all(tasks)
        return OF_A_BATCH[way](tasks)

    handler = batched(handle_batch, atomic=True)
    end = run(claim_some(3), handler, DatabaseClock())
    again = ["0", "1", "2"] if way == "an exception" else ["0", "2"]
    assert (len(end.left), numbers(end.alone), effects()) == (3 - len(again), again, set())
    settle("default", end.left)
    for task in end.alone:
        settle("default", run([task], handler, DatabaseClock()).left)
    assert effects() == {"0", "2"}
    expected = RunOutcome.RETRIED if way == "an exception" else RunOutcome.FAILED
    assert {num for num, outcome in outcomes().items() if outcome == expected} == {"1"}
    error = TaskRun.objects.get(biz_num="1").error
    assert "ValueError: bad" in error if way == "an exception" else error.startswith("Batched (code) returned ")


@pytest.mark.parametrize("returned", [[None] * 4, 7], ids=["another length", "no list"])
def test_a_batch_whose_results_cannot_be_matched(returned: Any) -> None:
    """All are FAILED by the first call, and none of it is written."""

    def handle_batch(tasks: list[Any]) -> Any:
        write_all(tasks)
        return returned

    end = run(claim_some(3), batched(handle_batch, atomic=True), DatabaseClock())
    settle("default", end.left)
    assert (end.alone, effects()) == ([], set())
    assert outcomes() == dict.fromkeys("012", RunOutcome.FAILED)
    for error in TaskRun.objects.values_list("error", flat=True):
        assert error.startswith("Batched (code) returned ")
