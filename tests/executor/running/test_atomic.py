"""``atomic = True``: what the handler writes and the settlement are one transaction."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connections, transaction

from django_delayed_tasks import Fail, Reschedule, TaskRun, signals
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.atomic_runs import effects, run_once, settled_later, write
from tests.executor.parts import add, claim_one

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]


def test_effects_and_settlement_are_committed_together() -> None:
    assert run_once(lambda task: write()) is None
    assert effects() == ["effect"]
    assert TaskRun.objects.get().outcome == RunOutcome.DONE
    assert not Task.objects.exists()


def test_the_history_is_of_what_was_claimed() -> None:
    """It does not matter what the handler changes on its task object."""
    task = claim_one(num="mine")
    when = task.when

    def handle(task: Any) -> None:
        is_first = task.biz_num == "mine"
        task.biz_num, task.when, task.attempts = "other", None, 77
        if is_first:  # it is tried again at once
            raise DatabaseError("database is locked")

    assert run_once(handle, task) is None
    run = TaskRun.objects.get()
    assert (run.biz_num, run.when, run.attempt) == ("mine", when, 1)


class TestTries:
    """A conflict with another transaction says nothing about the task: the run is tried again at once."""

    @pytest.mark.parametrize(
        ("error", "tries"),
        [
            (OperationalError(1213, "deadlock"), 3),
            (DatabaseError("database is locked"), 3),
            (OperationalError(1205, "lock wait timeout"), 1),  # it has waited long enough, and its thread with it
            (OperationalError(2006, "gone away"), 1),
            (ValueError("no"), 1),
        ],
    )
    def test_of_one_attempt(self, error: Exception, tries: int) -> None:
        tried: list[int] = []

        def handle(task: Any) -> None:
            tried.append(task.attempts)
            write()
            raise error

        settlement = run_once(handle)
        assert tried == [1] * tries
        assert settled_later(settlement) is NextState.RETRY
        assert effects() == []

    def test_another_node_may_answer_after_one_that_has_lost_its_cluster(self, monkeypatch: pytest.MonkeyPatch) -> None:
        closed: list[int] = []
        monkeypatch.setattr(connections["default"], "close", lambda: closed.append(1))

        def handle(task: Any) -> None:
            if not closed:
                raise OperationalError(1047, "WSREP has not yet prepared node for application use")
            write("effect")

        assert run_once(handle) is None
        assert (effects(), closed) == (["effect"], [1])

    def test_the_last_one_counts(self) -> None:
        tried: list[int] = []

        def handle(task: Any) -> None:
            tried.append(task.attempts)
            write(f"effect {len(tried)}")
            if len(tried) < 3:
                raise OperationalError(1213, "deadlock")

        assert run_once(handle) is None
        assert effects() == ["effect 3"]


def test_a_lost_claim_takes_the_effects_back() -> None:
    task = claim_one()
    settle("default", [Settlement(task.claim, RunOutcome.LOST, NextState.RESCUED)])
    left = run_once(lambda task: write(), task)
    assert settled_later(left) is None
    assert effects() == []
    assert Task.objects.get().status == TaskStatus.PENDING


def test_a_claim_lost_while_the_handler_works() -> None:
    def handle(task: Any) -> None:
        write()
        settle("default", [Settlement(task.claim, RunOutcome.LOST, NextState.RESCUED)])  # as the reaper would

    assert settled_later(run_once(handle)) is not None  # undone with the rest: the reaper was this very transaction
    assert effects() == []


def test_an_exception_takes_the_effects_back_and_is_retried() -> None:
    def handle(task: Any) -> None:
        write()
        sys.exit("no")

    assert settled_later(run_once(handle)) is NextState.RETRY
    assert effects() == []


def test_what_is_returned_is_committed_with_the_effects() -> None:
    def handle(task: Any) -> Any:
        write()
        return Fail("no")

    assert run_once(handle) is None
    assert effects() == ["effect"]
    assert Task.objects.get().status == TaskStatus.FAILED


class TestOnCommit:
    def test_hooks_run_after_the_commit_of_the_settlement(self) -> None:
        seen: list[int] = []
        run_once(lambda task: transaction.on_commit(lambda: seen.append(Task.objects.count())))
        assert seen == [0]

    def test_hooks_of_a_savepoint_that_was_rolled_back_do_not_run(self) -> None:
        seen: list[str] = []

        def handle(task: Any) -> None:
            transaction.on_commit(lambda: seen.append("outer"))
            with suppress(ValueError), transaction.atomic():
                transaction.on_commit(lambda: seen.append("inner"))
                raise ValueError

        assert run_once(handle) is None
        assert seen == ["outer"]

    def test_no_hook_runs_when_the_claim_is_gone(self) -> None:
        seen: list[str] = []
        task = claim_one()
        settle("default", [Settlement(task.claim, RunOutcome.LOST, NextState.RESCUED)])
        run_once(lambda task: transaction.on_commit(lambda: seen.append("sent")), task)
        assert seen == []

    @pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
    def test_a_hook_that_raises_changes_nothing(self, error: BaseException) -> None:
        def hook() -> None:
            raise error

        def handle(task: Any) -> None:
            write()
            transaction.on_commit(hook)

        assert run_once(handle) is None
        assert effects() == ["effect"]
        assert TaskRun.objects.get().outcome == RunOutcome.DONE

    def test_on_failed_is_told_after_the_commit(self) -> None:
        told: list[tuple[int, str]] = []

        def on_failed(handler: Any, task: Any, error: str) -> None:
            told.append((Task.objects.get().status, error))

        run_once(lambda task: Fail("no"), on_failed=on_failed)
        assert told == [(TaskStatus.FAILED, "no")]


@pytest.fixture
def decisions() -> Iterator[list[Settlement]]:
    """Return the decisions with which run_finished was sent."""
    seen: list[Settlement] = []

    def finished(decision: Settlement, **_: Any) -> None:
        seen.append(decision)

    signals.run_finished.connect(finished)
    yield seen
    signals.run_finished.disconnect(finished)


def test_one_end_is_announced(decisions: list[Settlement]) -> None:
    run_once(lambda task: write())
    assert [decision.then for decision in decisions] == [NextState.GONE]


def test_the_end_that_counts_is_announced(decisions: list[Settlement]) -> None:
    run_once(lambda task: transaction.set_rollback(True))
    assert [decision.then for decision in decisions] == [NextState.RETRY]


def test_a_deferred_schedule_survives() -> None:
    def handle(task: Any) -> None:
        write()
        add(num=task.biz_num, biz_ext="next")

    run_once(handle)
    task = Task.objects.get()
    assert (task.status, task.biz_ext) == (TaskStatus.PENDING, "next")


def test_a_commit_whose_answer_was_lost_is_not_settled_again() -> None:
    """What the settler finds when the COMMIT had arrived: gone, or waiting for its next time."""
    task = claim_one()
    assert run_once(lambda task: Reschedule(DatabaseClock().now(), biz_ext="next"), task) is None
    assert settle("default", [Settlement(task.claim, RunOutcome.RETRIED, NextState.RETRY)]).became == {}
    assert Task.objects.get().biz_ext == "next"
    assert TaskRun.objects.count() == 1
