"""``handle_batch``: many tasks in one call, and what becomes of each."""

from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks import Done, Fail, Reschedule, TaskRun, signals
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.executor.running.run_queue import batches_of
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.sql.portions import MAX_TEXT
from tests.executor.batches import add_some, batched, claim_some, numbers, outcomes
from tests.executor.parts import add, claim, executing, handler_of, registered
from tests.executor.runs import run
from tests.waiting import LIMIT, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


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

    @pytest.mark.parametrize("threads", [1, 8])
    def test_as_many_as_are_due_however_few_threads_there_are(self, threads: int) -> None:
        """Nor does it matter how long the calls take: the tasks of one call do not wait for a thread each."""
        seen: list[int] = []
        gate = Event()

        def handle_batch(tasks: list[Any]) -> None:
            seen.append(len(tasks))
            assert gate.wait(LIMIT)

        batched(handle_batch, batch_size=50)
        add_some(120)
        with executing(threads=threads, batch_size=30, drain=True) as executor:
            wait_until(lambda: len(seen) == min(threads, 3))
            gate.set()
            assert executor.drained.wait(LIMIT)
        assert sorted(seen) == [20, 50, 50]  # calls at once begin in any order

    @pytest.mark.parametrize("alike", [4, 2])
    def test_others_are_not_claimed_for_it(self, make_bench: Any, alike: int) -> None:
        """Tasks of other codes are claimed for the threads that there are, not for the size of a batch."""
        batched(lambda tasks: None, batch_size=50)
        handler_of(lambda task: None, "single")
        for number in range(alike):
            add(str(number))
        for number in range(100):
            add(str(number), "single")
        bench = make_bench(threads=4)
        bench.poller.poll()
        assert len(bench.delivered) == 4

    def test_nor_is_a_batch_filled_that_came_with_others(self, make_bench: Any) -> None:
        """The threads have enough to do with these."""
        batched(lambda tasks: None, batch_size=50)
        handler_of(lambda task: None, "single")
        for number, code in enumerate(["code", "single", "code", "single", *["code"] * 10]):
            add(str(number), code)
        bench = make_bench(threads=4)
        bench.poller.poll()
        assert sorted(numbers(bench.delivered)) == ["0", "1", "2", "3"]

    def test_no_more_than_the_executor_may_run(self, make_bench: Any) -> None:
        batched(lambda tasks: None, batch_size=50)
        add_some(20)
        bench = make_bench(threads=1, max_tasks=7)
        bench.poller.poll()
        assert len(bench.delivered) == 7

    def test_not_what_is_for_later(self, make_bench: Any) -> None:
        batched(lambda tasks: None, batch_size=50)
        add_some(20)
        for number in range(20, 40):
            add(str(number), when=timedelta(hours=1))
        bench = make_bench(threads=1)
        bench.poller.poll()
        assert numbers(bench.delivered) == [str(number) for number in range(20)]

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
        Task._base_manager.filter(biz_num="1").update(**{field: 1})
        assert list(map(numbers, batches_of(claim(registered())))) == [["0", "2"], ["1"]]


class TestOutcomes:
    def test_each_task_has_its_own(self) -> None:
        handler = batched(
            lambda tasks: (None, Done(result={"n": 1}), Reschedule(timedelta(hours=1)), Fail("no"), ValueError("bad"))
        )
        end = run(claim_some(5), handler, DatabaseClock())
        assert end.alone == []
        became = settle("default", end.left).became
        assert list(became.values()) == [
            NextState.GONE,
            NextState.GONE,
            NextState.AGAIN,
            NextState.FAILED,
            NextState.RETRY,
        ]
        assert list(outcomes().values()) == [
            RunOutcome.DONE, RunOutcome.DONE, RunOutcome.RESCHEDULED, RunOutcome.FAILED, RunOutcome.RETRIED,
        ]  # fmt: skip
        assert TaskRun.objects.get(biz_num="1").result == {"n": 1}
        assert "ValueError: bad" in TaskRun.objects.get(biz_num="4").error

    @pytest.mark.parametrize("returned", [[], [None], [None] * 4, "abc", {"0": None}, iter([None] * 3), 7])
    def test_that_cannot_be_told_apart_fail_each_for_good(self, returned: Any) -> None:
        handler = batched(lambda tasks: returned)
        end = run(claim_some(3), handler, DatabaseClock())
        assert end.alone == []
        settle("default", end.left)
        assert set(outcomes().values()) == {RunOutcome.FAILED}
        expected = "expected None, or a list of 3 outcomes, one for each task, in the order of the tasks"
        assert expected in TaskRun.objects.first().error  # type: ignore[union-attr]

    def test_an_outcome_of_one_that_is_none_fails_that_one(self) -> None:
        handler = batched(lambda tasks: [None, 7, None])
        settle("default", run(claim_some(3), handler, DatabaseClock()).left)
        assert list(outcomes().values()) == [RunOutcome.DONE, RunOutcome.FAILED, RunOutcome.DONE]

    def test_what_is_too_late_is_left_out(self) -> None:
        seen: list[list[str]] = []
        handler = batched(lambda tasks: seen.append(numbers(tasks)), max_lateness=60)
        add_some(2)
        add("late", when=timedelta(hours=-1))
        settle("default", run(claim(registered()), handler, DatabaseClock()).left)
        assert seen == [["0", "1"]]
        assert outcomes() == {"0": RunOutcome.DONE, "1": RunOutcome.DONE, "late": RunOutcome.EXPIRED}


def test_signals_are_sent_for_each_task() -> None:
    told: list[str] = []

    def note(**sent: Any) -> None:
        told.append(f"{sent['task'].biz_num} {'decision' in sent}")

    signals.run_started.connect(note)
    signals.run_finished.connect(note)
    try:
        run(claim_some(2), batched(lambda tasks: None), DatabaseClock())
    finally:
        signals.run_started.disconnect(note)
        signals.run_finished.disconnect(note)
    assert told == ["0 False", "1 False", "0 True", "1 True"]


def test_large_results_of_an_atomic_batch_are_written_in_portions() -> None:
    """They are written in one transaction, but not in one statement, which a server may refuse for its length."""
    sizes: list[int] = []

    def measure(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        sizes.append(len(sql) + len(str(params)))
        return execute(sql, params, many, context)

    count = MAX_TEXT // 50_000 + 5
    handler = batched(lambda tasks: [Done("x" * 50_000) for _ in tasks], atomic=True)
    tasks = claim_some(count)
    with connection.execute_wrapper(measure):
        assert run(tasks, handler, DatabaseClock()) == ([], [])
    assert set(outcomes().values()) == {RunOutcome.DONE}
    assert len(outcomes()) == count
    assert max(sizes) < 1.2 * MAX_TEXT
