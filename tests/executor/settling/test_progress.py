"""What a run reports about itself, and asks about its claim, while it is in progress."""

import math
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from django_delayed_tasks.clock import DatabaseClock, frozen_at
from django_delayed_tasks.exceptions import ClaimLost, CutOff, InvalidTask
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.settling.settler import ProgressReports
from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.schedules.verbs import cancel
from django_delayed_tasks.store.settling.settle import path_of, settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.parts import add, claim, claim_one, executing, handler_of, held_with, registered
from tests.executor.runs import run_one
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.per_database]


def reports_of(*tasks: ClaimedTask) -> ProgressReports:
    held = held_with(ExecutorOptions())
    held.add(tasks)
    return ProgressReports("default", held)


def take_from(task: ClaimedTask) -> None:
    """Take the task away, as a reap does."""
    settle("default", [Settlement(task.claim, RunOutcome.LOST, NextState.RESCUED)])


def reported() -> tuple[float | None, str | None]:
    task = Task.objects.get()
    return task.progress_fraction, task.progress_note


class TestCheckClaim:
    def test_says_nothing_while_it_is_held(self) -> None:
        claim_one().check_claim()

    def test_what_happens_to_the_task_from_outside_takes_no_claim(self) -> None:
        task = claim_one()
        add(num=task.biz_num, biz_ext="next")
        cancel("default", task.biz_code, task.biz_num)
        task.check_claim()

    def test_a_task_that_was_taken(self) -> None:
        task = claim_one()
        take_from(task)
        with pytest.raises(ClaimLost, match="code 1: the claim is gone"):
            task.check_claim()

    def test_a_task_that_was_taken_and_claimed_again(self) -> None:
        task = claim_one()
        take_from(task)
        [again] = claim(task.executor)
        again.check_claim()
        with pytest.raises(ClaimLost):
            task.check_claim()
        assert again.fencing_token > task.fencing_token

    def test_a_lease_that_ran_out_unnoticed(self) -> None:
        """No executor has taken the task yet, but each may."""
        task = claim_one()
        with frozen_at(Executor.objects.get().expires_at), pytest.raises(ClaimLost):
            task.check_claim()

    def test_an_executor_that_has_ended(self) -> None:
        task = claim_one()
        executors.retire("default", task.executor)
        with pytest.raises(ClaimLost):
            task.check_claim()

    def test_is_not_answered_from_memory(self, django_assert_num_queries: Any) -> None:
        task = claim_one()
        with django_assert_num_queries(3):
            for _ in range(3):
                task.check_claim()


class TestRunThatIsToldItsClaimIsGone:
    """A late heartbeat: the lease had run out, but no executor has taken the task, and it is renewed after all."""

    def ask(self, task: ClaimedTask, **attributes: Any) -> Settlement:
        with frozen_at(Executor.objects.get().expires_at):
            settlement = run_one(task, handler_of(lambda task: task.check_claim(), **attributes), DatabaseClock())
        assert settlement
        return settlement

    @pytest.mark.parametrize("is_atomic", [False, True])
    def test_is_no_failed_attempt(self, is_atomic: bool) -> None:
        settlement = self.ask(claim_one(), max_attempts=1, atomic=is_atomic)
        assert set(settle("default", [settlement]).became.values()) == {NextState.RELEASED}
        task = Task.objects.get()
        assert (task.attempts, task.rescues, task.status, task.version) == (0, 0, 0, 2)
        run = TaskRun.objects.get()
        assert (run.outcome, run.error) == (RunOutcome.LOST, "cut off: its executor could not renew its lease")
        assert run.exception == path_of(CutOff)

    def test_nor_a_rescue_however_often(self) -> None:
        task = claim_one()
        task.rescues = 3
        assert self.ask(task).then is NextState.RELEASED

    def test_a_handler_that_says_so_itself_is_rescued_and_not_for_ever(self) -> None:
        task = claim_one()

        def say_so(task: ClaimedTask) -> None:
            raise ClaimLost

        handler = handler_of(say_so)
        first, last = (run_one(replace(task, rescues=rescues), handler, DatabaseClock()) for rescues in (0, 3))
        assert first
        assert last
        assert (first.then, last.then) == (NextState.RESCUED, NextState.FAILED)


class TestProgress:
    def test_the_latest_report_is_written(self, django_assert_num_queries: Any) -> None:
        task = claim_one()
        reports = reports_of(task)
        with django_assert_num_queries(0):
            for row in range(1000):
                task.progress(row / 1000, f"row {row}")
        assert reports.write() == 1
        assert reported() == (0.999, "row 999")
        assert Task.objects.get().progress_at is not None

    def test_nothing_new_is_not_written(self, django_assert_num_queries: Any) -> None:
        task = claim_one()
        reports = reports_of(task)
        task.progress(0.5)
        reports.write()
        with django_assert_num_queries(0):
            reports.write()

    def test_one_statement_for_each_run_that_reported(self) -> None:
        for num in ("a", "b", "c"):
            add(num=num)
        one, two, _ = tasks = claim(registered())
        reports = reports_of(*tasks)
        two.progress(0.2)
        one.progress(0.1)
        reports.write()
        assert list(Task.objects.order_by("id").values_list("progress_fraction", flat=True)) == [0.1, 0.2, None]

    def test_a_claim_that_is_gone_writes_nothing_and_is_told(self) -> None:
        task = claim_one()
        reports = reports_of(task)
        take_from(task)
        task.progress(0.5)
        reports.write()
        assert reported() == (None, None)
        with pytest.raises(ClaimLost):
            task.progress(0.6)

    def test_nor_does_it_write_over_the_next_run(self) -> None:
        task = claim_one()
        take_from(task)
        [again] = claim(task.executor)
        again.progress(0.1, "again")
        task.progress(0.9, "zombie")
        reports_of(task, again).write()
        assert reported() == (0.1, "again")

    @pytest.mark.parametrize(
        "then", [NextState.RETRY, NextState.AGAIN, NextState.FAILED, NextState.RESCUED, NextState.RELEASED]
    )
    def test_it_is_forgotten_with_the_run(self, then: NextState) -> None:
        task = claim_one()
        task.progress(0.5, "half")
        reports_of(task).write()
        settle("default", [Settlement(task.claim, RunOutcome.LOST, then, when=DatabaseClock().now())])
        assert reported() == (None, None)

    def test_it_takes_no_claim_and_no_version(self) -> None:
        task = claim_one()
        task.progress(1)
        reports_of(task).write()
        assert Task.objects.get().version == task.version
        assert settle("default", [Settlement(task.claim, RunOutcome.DONE, NextState.GONE)]).became

    @pytest.mark.parametrize("fraction", [-0.1, 1.1, math.nan, math.inf, "0.5", None, True, 1j, 10**400])
    def test_no_fraction(self, fraction: Any) -> None:
        with pytest.raises(InvalidTask, match="fraction="):
            claim_one().progress(fraction)

    @pytest.mark.parametrize("note", [None, 1, b"half"])
    def test_no_note(self, note: Any) -> None:
        with pytest.raises(InvalidTask, match="note="):
            claim_one().progress(0.5, note)

    @pytest.mark.parametrize(
        ("note", "kept"), [("é" * 500, "é" * 200), ("a\0b\ud800", "a\ufffdb\\ud800"), ("😀" * 200, "😀" * 200)]
    )
    def test_any_text_is_a_note(self, note: str, kept: str) -> None:
        task = claim_one()
        task.progress(0.5, note)
        reports_of(task).write()
        assert reported() == (0.5, kept)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_atomic", [False, True])
def test_it_is_seen_during_the_run(is_atomic: bool, database: str) -> None:
    go_on = Event()

    def handle(task: Any) -> None:
        task.progress(0.25, "a quarter")
        assert go_on.wait(30)

    handler_of(handle, atomic=is_atomic)
    add()
    with executing():
        try:
            # On SQLite an atomic run is the one writer for as long as it takes.
            expected = (None, None) if is_atomic and database == "sqlite" else (0.25, "a quarter")
            wait_until(lambda: Executor.objects.exists() and Task.objects.get().status == 1)
            wait_until(lambda: reported() == expected)
        finally:
            go_on.set()
        wait_until(lambda: not Task.objects.exists())
