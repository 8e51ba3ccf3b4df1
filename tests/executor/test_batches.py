"""``handle_batch``: many tasks in one call, and what becomes of each."""

from collections.abc import Callable
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import IntegrityError, connection

from django_delayed_tasks import Done, Fail, Reschedule, TaskHandler, TaskRun, clock, register_task_handler, signals
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.executor.batching import Broken, batches_of, run_batch
from django_delayed_tasks.executor.workers import Running, WorkerPool
from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import RunOutcome, TaskStatus, Then
from django_delayed_tasks.store import ClaimedTask, Settlement, settle
from django_delayed_tasks.triggers import Interval
from tests.executor.parts import add, claim, executing, handler_of, registered
from tests.store.meters import statements
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

NOW = "2026-01-01T00:00Z"


def batched(handle_batch: Callable[[list[Any]], Any], code: str = "code", **attributes: Any) -> TaskHandler:
    """A registered handler that calls ``handle_batch(tasks)``."""
    members = {"biz_code": code, "handle_batch": lambda self, tasks: handle_batch(tasks), **attributes}
    return register_task_handler(type("Batched", (TaskHandler,), members)())


def add_some(count: int, **fields: Any) -> None:
    for number in range(count):
        add(str(number), **fields)


def claim_some(count: int) -> list[ClaimedTask]:
    add_some(count)
    return claim(registered(f"of {count}"))


def numbers(tasks: list[Any]) -> list[str]:
    return [task.biz_num for task in tasks]


def write(task: Any) -> None:
    Executor.objects.create(
        name=task.biz_num, host="effect", pid=1, threads=1, alive=None, started_at=NOW, heartbeat_at=NOW,
        expires_at=NOW,
    )  # fmt: skip


def write_all(tasks: list[Any]) -> None:
    for task in tasks:
        write(task)


def effects() -> set[str]:
    return set(Executor.objects.filter(host="effect").values_list("name", flat=True))


def outcomes() -> dict[str, RunOutcome]:
    return {num: RunOutcome(outcome) for num, outcome in TaskRun.objects.values_list("biz_num", "outcome")}


class TestTogether:
    def test_one_call_for_all_that_are_due(self) -> None:
        seen: list[list[str]] = []
        batched(lambda tasks: seen.append(numbers(tasks)))
        add_some(20)
        with executing(threads=30, drain=True) as executor:
            assert executor.drained.wait(60)
        assert seen == [[str(number) for number in range(20)]]
        assert set(outcomes().values()) == {RunOutcome.DONE}
        assert not Task.objects.exists()

    def test_of_one_code_and_no_more_than_wanted(self) -> None:
        batched(lambda tasks: None, batch_size=3)
        batched(lambda tasks: None, "other")
        handler_of(lambda task: None, "single")
        for number in range(4):
            for code in ("code", "single", "other"):
                add(str(number), code)
        made = [[f"{task.biz_code} {task.biz_num}" for task in batch] for batch in batches_of(claim(registered()))]
        assert made == [
            ["code 0", "code 1", "code 2"], ["single 0"], ["other 0", "other 1", "other 2", "other 3"], ["single 1"],
            ["single 2"], ["code 3"], ["single 3"],
        ]  # fmt: skip

    @pytest.mark.parametrize("field", ["rescues", "attempts"])
    def test_what_may_have_been_the_cause_runs_alone(self, field: str) -> None:
        batched(lambda tasks: None)
        add_some(3)
        Task.objects.filter(biz_num="1").update(**{field: 1})
        assert list(map(numbers, batches_of(claim(registered())))) == [["0", "2"], ["1"]]


class TestOutcomes:
    def test_each_task_has_its_own(self) -> None:
        handler = batched(
            lambda tasks: (None, Done(result={"n": 1}), Reschedule(timedelta(hours=1)), Fail("no"), ValueError("bad"))
        )
        end = run_batch(claim_some(5), handler, DatabaseClock())
        assert end.alone == []
        became = settle("default", end.left)
        assert list(became.values()) == [Then.GONE, Then.GONE, Then.AGAIN, Then.FAILED, Then.RETRY]
        assert list(outcomes().values()) == [
            RunOutcome.DONE, RunOutcome.DONE, RunOutcome.RESCHEDULED, RunOutcome.FAILED, RunOutcome.RETRIED,
        ]  # fmt: skip
        assert TaskRun.objects.get(biz_num="1").result == {"n": 1}
        assert "ValueError: bad" in TaskRun.objects.get(biz_num="4").error

    @pytest.mark.parametrize("atomic", [False, True])
    @pytest.mark.parametrize("returned", [[], [None], [None] * 4, "abc", {"0": None}, iter([None] * 3), 7])
    def test_that_cannot_be_told_apart_fail_the_attempt_of_each(self, atomic: bool, returned: Any) -> None:
        handler = batched(lambda tasks: returned, atomic=atomic)
        end = run_batch(claim_some(3), handler, DatabaseClock())
        assert end.alone == []
        settle("default", end.left)
        assert set(outcomes().values()) == {RunOutcome.RETRIED}
        assert "expected None or 3 outcomes, one for each task" in TaskRun.objects.first().error  # type: ignore[union-attr]

    def test_an_outcome_of_one_that_is_none_fails_that_one(self) -> None:
        handler = batched(lambda tasks: [None, 7, None])
        settle("default", run_batch(claim_some(3), handler, DatabaseClock()).left)
        assert list(outcomes().values()) == [RunOutcome.DONE, RunOutcome.RETRIED, RunOutcome.DONE]

    def test_what_is_too_late_is_left_out(self) -> None:
        seen: list[list[str]] = []
        handler = batched(lambda tasks: seen.append(numbers(tasks)), max_lateness=60)
        add_some(2)
        add("late", when=timedelta(hours=-1))
        settle("default", run_batch(claim(registered()), handler, DatabaseClock()).left)
        assert seen == [["0", "1"]]
        assert outcomes() == {"0": RunOutcome.DONE, "1": RunOutcome.DONE, "late": RunOutcome.EXPIRED}


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

        end = run_batch(claim_some(3), batched(consume, atomic=atomic), DatabaseClock())
        if raises:
            assert numbers(end.alone) == ["0", "1", "2"]
        else:
            settle("default", end.left)
            assert set(outcomes().values()) == {RunOutcome.DONE}

    def test_its_tasks_are_not_put_together_again(self) -> None:
        handler = batched(lambda tasks: 1 / 0)
        tasks, broken = claim_some(3), Broken()
        broken.note(run_batch(tasks, handler, DatabaseClock()).alone)
        assert [len(batch) for batch in batches_of(tasks, broken)] == [1, 1, 1]
        assert [len(batch) for batch in batches_of(tasks)] == [3]

    def test_what_was_given_up_is_not_run_alone_as_well(self) -> None:
        """The watchdog came while the batch was raising."""
        pool = WorkerPool("default", 1, lambda running: None)
        tasks = claim_some(3)
        running = Running(tasks, 0.0)
        assert pool.hand_over(running, tasks[:2])
        assert running.tasks == tasks[2:]
        running.is_abandoned = True
        assert not pool.hand_over(running, tasks[2:])
        assert running.tasks == tasks[2:]

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
            end = run_batch(tasks, handler, DatabaseClock())
        finally:
            signal.disconnect(leave)
        assert end.alone == []
        assert calls == ([3] if signal is signals.run_finished else [])
        settle("default", end.left)
        assert not Task.objects.filter(status=TaskStatus.RUNNING).exists()

    def test_a_run_between_two_times_is_still_one_when_it_is_run_alone(self) -> None:
        handler = batched(lambda tasks: 1 / 0)
        planned = clock.host_now() + timedelta(days=1)
        for num in ("1", "2"):
            add(num, trigger=Interval(days=1), when=planned)
        Task.objects.update(claim_at=clock.host_now() - timedelta(seconds=1))
        tasks = claim(registered())
        whens = {task.biz_num: task.when for task in tasks}
        assert {task.biz_num: task.when for task in run_batch(tasks, handler, DatabaseClock()).alone} == whens

    @pytest.mark.parametrize("error", [ValueError("no"), SystemExit("no"), KeyboardInterrupt()])
    def test_one_task_fails_its_attempt(self, error: BaseException) -> None:
        def fail(tasks: list[Any]) -> None:
            raise error

        end = run_batch(claim_some(1), batched(fail), DatabaseClock())
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
        for task in run_batch(claim(registered()), handler, DatabaseClock()).alone:
            run_batch([task], handler, DatabaseClock())
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
            executor._stopping = True
            executor._polling.stop()
            go_on.set()
            wait_until(lambda: not len(executor.inflight))
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
            end = run_batch(tasks, handler, DatabaseClock())
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
                run_batch(tasks, handler, DatabaseClock())
            counts.append(len(sent))
        assert counts[0] == counts[1] <= 5

    def test_what_breaks_undoes_all_and_each_is_run_alone(self) -> None:
        handler = batched(refuse_number_one, atomic=True, max_attempts=1)
        end = run_batch(claim_some(3), handler, DatabaseClock())
        assert (end.left, effects(), outcomes()) == ([], set(), {})
        for task in end.alone:
            settle("default", run_batch([task], handler, DatabaseClock()).left)
        assert effects() == {"0", "2"}
        assert outcomes() == {"0": RunOutcome.DONE, "1": RunOutcome.FAILED, "2": RunOutcome.DONE}

    def test_a_claim_that_is_gone_undoes_all_and_the_others_run_alone(self) -> None:
        handler = batched(write_all, atomic=True)
        tasks = claim_some(3)
        settle("default", [Settlement(tasks[1].claim, RunOutcome.LOST, Then.RESCUED)])
        end = run_batch(tasks, handler, DatabaseClock())
        assert effects() == set()
        for task in end.alone:
            settle("default", run_batch([task], handler, DatabaseClock()).left)
        assert effects() == {"0", "2"}
        assert Task.objects.get().biz_num == "1"

    def test_one_that_fails_for_good_is_told_of(self) -> None:
        told: list[tuple[str, str]] = []
        handler = batched(
            lambda tasks: [Fail("no"), None], atomic=True,
            on_failed=lambda self, task, error: told.append((task.biz_num, error)),
        )  # fmt: skip
        run_batch(claim_some(2), handler, DatabaseClock())
        assert told == [("0", "no")]


def test_signals_are_sent_for_each_task() -> None:
    told: list[str] = []

    def note(**sent: Any) -> None:
        told.append(f"{sent['task'].biz_num} {'decision' in sent}")

    signals.run_started.connect(note)
    signals.run_finished.connect(note)
    try:
        run_batch(claim_some(2), batched(lambda tasks: None), DatabaseClock())
    finally:
        signals.run_started.disconnect(note)
        signals.run_finished.disconnect(note)
    assert told == ["0 False", "1 False", "0 True", "1 True"]
