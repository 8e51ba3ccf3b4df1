"""Batches that raise, hang or are atomic: one task does not hold the rest, and what is undone is undone for all."""

from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import IntegrityError, connection

from django_delayed_tasks import Fail, TaskRun, clock, signals
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.executor.running.run_queue import BrokenBatches, batches_of
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.triggers import Interval
from tests.executor.batches import add_some, batched, claim_some, effects, numbers, outcomes, write, write_all
from tests.executor.parts import add, claim, executing, registered
from tests.executor.runs import run
from tests.store.meters import statements
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def refuse_number_one(tasks: list[Any]) -> None:
    for task in tasks:
        write(task)
        if task.biz_num == "1":
            raise IntegrityError("no place for 1")


class TestBroken:
    @pytest.mark.parametrize("atomic", [False, True])
    @pytest.mark.parametrize("raises", [False, True])
    def test_a_handler_may_do_what_it_likes_with_its_list(self, atomic: bool, raises: bool) -> None:
        def consume(tasks: list[Any]) -> None:
            tasks.clear()
            if raises:
                raise ValueError

        end = run(claim_some(3), batched(consume, atomic=atomic), DatabaseClock())
        if raises:
            assert numbers(end.alone) == ["0", "1", "2"]
        else:
            settle("default", end.left)
            assert set(outcomes().values()) == {RunOutcome.DONE}

    def test_its_tasks_are_not_put_together_again(self) -> None:
        handler = batched(lambda tasks: 1 / 0)
        tasks, broken = claim_some(3), BrokenBatches()
        broken.note(run(tasks, handler, DatabaseClock()).alone)
        assert [len(batch) for batch in batches_of(tasks, broken)] == [1, 1, 1]
        assert [len(batch) for batch in batches_of(tasks)] == [3]

    def test_what_was_given_up_is_not_run_alone_as_well(self) -> None:
        """The watchdog came while the batch was raising."""
        tasks = claim_some(3)
        running = CurrentRun(tasks, 0.0)
        assert running.abandon()
        assert not running.hand_over(tasks[2:])
        assert running.tasks == tasks

    @pytest.mark.parametrize("signal", [signals.run_started, signals.run_finished])
    @pytest.mark.parametrize("atomic", [False, True])
    def test_a_receiver_that_exits_leaves_no_claim_behind(self, signal: Any, atomic: bool) -> None:
        calls: list[int] = []

        def leave(**sent: Any) -> None:
            raise SystemExit

        handler = batched(lambda tasks: calls.append(len(tasks)), atomic=atomic)
        tasks = claim_some(3)
        signal.connect(leave)
        try:
            end = run(tasks, handler, DatabaseClock())
        finally:
            signal.disconnect(leave)
        assert end.alone == []
        assert calls == ([3] if signal is signals.run_finished else [])
        settle("default", end.left)
        assert not Task.objects.filter(status=TaskStatus.RUNNING).exists()

    @pytest.mark.parametrize("atomic", [False, True])
    def test_a_receiver_that_exits_for_one_task_costs_no_other_an_attempt(self, atomic: bool) -> None:
        def leave(task: Any, **sent: Any) -> None:
            if task.biz_num == "1":
                raise SystemExit

        handler = batched(write_all, atomic=atomic, max_attempts=1)
        tasks = claim_some(3)
        signals.run_started.connect(leave)
        try:
            end = run(tasks, handler, DatabaseClock())
        finally:
            signals.run_started.disconnect(leave)
        settle("default", end.left)
        assert outcomes() == {"0": RunOutcome.DONE, "1": RunOutcome.FAILED, "2": RunOutcome.DONE}
        assert effects() == {"0", "2"}

    def test_a_run_between_two_times_is_still_one_when_it_is_run_alone(self) -> None:
        handler = batched(lambda tasks: 1 / 0)
        planned = clock.host_now() + timedelta(days=1)
        for num in ("1", "2"):
            add(num, trigger=Interval(days=1), when=planned)
        Task._base_manager.update(claim_at=clock.host_now() - timedelta(seconds=1))
        tasks = claim(registered())
        whens = {task.biz_num: task.when for task in tasks}
        assert {task.biz_num: task.when for task in run(tasks, handler, DatabaseClock()).alone} == whens

    @pytest.mark.parametrize("error", [ValueError("no"), SystemExit("no"), KeyboardInterrupt()])
    def test_one_task_fails_its_attempt(self, error: BaseException) -> None:
        def fail(tasks: list[Any]) -> None:
            raise error

        end = run(claim_some(1), batched(fail), DatabaseClock())
        assert [settlement.outcome for settlement in end.left] == [RunOutcome.RETRIED]
        assert end.alone == []

    def test_many_are_run_one_by_one_and_one_cannot_hold_the_rest(self) -> None:
        sizes: list[int] = []

        def fail(tasks: list[Any]) -> None:
            sizes.append(len(tasks))
            if any(task.biz_num == "1" for task in tasks):
                raise ValueError("no 1")

        batched(fail, max_attempts=1)
        add_some(4)
        with executing(threads=10, drain=True) as executor:
            assert executor.drained.wait(60)
        assert sorted(sizes) == [1, 1, 1, 1, 4]
        assert outcomes() == {
            "0": RunOutcome.DONE, "1": RunOutcome.FAILED, "2": RunOutcome.DONE, "3": RunOutcome.DONE,
        }  # fmt: skip
        assert set(TaskRun.objects.values_list("attempt", flat=True)) == {1}

    def test_data_changed_by_the_broken_call_are_as_they_were(self) -> None:
        def spoil(tasks: list[Any]) -> None:
            for task in tasks:
                task.biz_ext["n"] += 1
            if len(tasks) > 1:
                raise ValueError
            seen.append(tasks[0].biz_ext)

        seen: list[Any] = []
        handler = batched(spoil)
        add_some(2, biz_ext={"n": 0})
        for task in run(claim(registered()), handler, DatabaseClock()).alone:
            run([task], handler, DatabaseClock())
        assert seen == [{"n": 1}, {"n": 1}]

    def test_those_to_be_run_alone_are_given_back_by_an_executor_that_ends(self) -> None:
        started, go_on = Event(), Event()

        def fail(tasks: list[Any]) -> None:
            started.set()
            go_on.wait(60)
            raise ValueError("all of them")

        batched(fail)
        add_some(3)
        with executing(threads=10) as executor:
            assert started.wait(30)
            executor._polling.stop()
            executor.queue.close()
            go_on.set()
            wait_until(lambda: not len(executor.held))
        assert set(Task.objects.values_list("status", "attempts")) == {(TaskStatus.PENDING, 0)}
        assert not TaskRun.objects.exists()

    def test_a_timeout_takes_all_of_it(self) -> None:
        hang = Event()
        batched(lambda tasks: hang.wait(60) and None, timeout=0.1, max_attempts=1)
        add_some(3)
        with executing(threads=10):
            wait_until(lambda: Task.objects.filter(status=TaskStatus.FAILED).count() == 3)
            hang.set()
        assert set(outcomes().values()) == {RunOutcome.FAILED}


class TestAtomic:
    def test_effects_and_settlements_are_one_transaction(self) -> None:
        tasks = claim_some(3)
        handler = batched(write_all, atomic=True)
        commits: list[str] = []

        def watch(execute: Any, sql: str, *rest: Any) -> Any:
            commits.append(f"{connection.in_atomic_block} {sql[:6]}")
            return execute(sql, *rest)

        with connection.execute_wrapper(watch):
            end = run(tasks, handler, DatabaseClock())
        assert end == ([], [])
        assert effects() == {"0", "1", "2"}
        assert set(outcomes().values()) == {RunOutcome.DONE}
        assert [said for said in commits if said.startswith("False INSERT")] == []

    def test_a_large_batch_is_settled_in_as_many_statements_as_a_small_one(self) -> None:
        handler = batched(lambda tasks: None, atomic=True)
        counts = []
        for size in (2, 50):
            tasks = claim_some(size)
            with statements() as sent:
                run(tasks, handler, DatabaseClock())
            counts.append(len(sent))
        assert counts[0] == counts[1] <= 5

    def test_what_breaks_undoes_all_and_each_is_run_alone(self) -> None:
        handler = batched(refuse_number_one, atomic=True, max_attempts=1)
        end = run(claim_some(3), handler, DatabaseClock())
        assert (end.left, effects(), outcomes()) == ([], set(), {})
        for task in end.alone:
            settle("default", run([task], handler, DatabaseClock()).left)
        assert effects() == {"0", "2"}
        assert outcomes() == {"0": RunOutcome.DONE, "1": RunOutcome.FAILED, "2": RunOutcome.DONE}

    def test_a_claim_that_is_gone_undoes_all_and_the_others_run_alone(self) -> None:
        handler = batched(write_all, atomic=True)
        tasks = claim_some(3)
        settle("default", [Settlement(tasks[1].claim, RunOutcome.LOST, NextState.RESCUED)])
        end = run(tasks, handler, DatabaseClock())
        assert effects() == set()
        for task in end.alone:
            settle("default", run([task], handler, DatabaseClock()).left)
        assert effects() == {"0", "2"}
        assert Task.objects.get().biz_num == "1"

    def test_one_that_fails_for_good_is_told_of(self) -> None:
        told: list[tuple[str, str]] = []
        handler = batched(
            lambda tasks: [Fail("no"), None], atomic=True,
            on_failed=lambda self, task, error: told.append((task.biz_num, error)),
        )  # fmt: skip
        run(claim_some(2), handler, DatabaseClock())
        assert told == [("0", "no")]
