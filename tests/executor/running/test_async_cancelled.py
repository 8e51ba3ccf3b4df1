"""Async runs that are cancelled: after their time-out, when their executor stops, and when their claim is lost."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import Done, TaskHandler, add_tasks, register_task_handler
from django_delayed_tasks.exceptions import CutOff
from django_delayed_tasks.executor import executor as executor_module
from django_delayed_tasks.executor.running import awaited_runs
from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import lose
from django_delayed_tasks.store.settling.settle import path_of
from django_delayed_tasks.store.sql.lanes import LOOP
from tests.executor.coroutines import Waiting, async_handler_of
from tests.executor.parts import add, claim, drain, executing
from tests.threads import start_thread
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("live_db")


class TestTimeout:
    @pytest.mark.parametrize(("max_attempts", "outcome"), [(1, RunOutcome.FAILED), (2, RunOutcome.RETRIED)])
    def test_cancels_the_run_and_costs_an_attempt(
        self, max_attempts: int, outcome: RunOutcome, caplog: pytest.LogCaptureFixture
    ) -> None:
        waiting = Waiting(timeout=0.1, max_attempts=max_attempts, backoff=lambda self, attempt: timedelta(hours=1))
        add()
        with executing(threads=1) as executor:
            wait_until(lambda: TaskRun.objects.exists())
            wait_until(lambda: waiting.cancelled)
            wait_until(lambda: not executor.awaited._tasks)
            assert executor.capacity.awaited == 0
            assert executor.workers.lost() == []
        run = TaskRun.objects.get()
        assert (run.outcome, run.attempt) == (outcome, 1)
        assert run.error == "TaskTimeout: the run took longer than 0.1 s"
        assert "code 1 took longer than 0.1 s; it is cancelled" in caplog.text
        assert waiting.begun == waiting.cancelled == ["1"]

    def test_leaves_the_other_runs_alone(self) -> None:
        waiting = Waiting(code="other")
        Waiting(timeout=0.1, max_attempts=1)
        add("late")
        add("patient", code="other")
        with executing(threads=1):
            wait_until(lambda: TaskRun.objects.exists())
            waiting.go_on()
            wait_until(lambda: TaskRun.objects.count() == 2)
        assert waiting.cancelled == []
        assert dict(TaskRun.objects.values_list("biz_num", "outcome")) == {
            "late": RunOutcome.FAILED,
            "patient": RunOutcome.DONE,
        }

    def test_what_a_handler_returns_after_it_does_not_count(self) -> None:
        has_ended = []

        async def handle(task: Any) -> Any:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                has_ended.append(True)
            return Done(result="too late")

        async_handler_of(handle, timeout=0.1, max_attempts=1)
        add()
        with executing():
            wait_until(lambda: has_ended and TaskRun.objects.exists())
        [run] = TaskRun.objects.all()
        assert (run.outcome, run.result) == (RunOutcome.FAILED, None)

    def test_it_counts_from_when_the_run_begins(self) -> None:
        """Not from when it is put in the line behind others of its broken batch."""

        async def handle_batch(self: Any, tasks: Any) -> None:
            if len(tasks) > 1:
                raise ValueError("one by one")
            await asyncio.sleep(0.15)

        members = {"biz_code": "code", "handle_batch": handle_batch, "timeout": 1.0, "max_attempts": 1}
        register_task_handler(type("Batched", (TaskHandler,), members))
        for number in range(10):
            add(str(number))
        drain(async_concurrency=1)
        assert set(TaskRun.objects.values_list("outcome", flat=True)) == {RunOutcome.DONE}


class TestShutdown:
    def test_lets_runs_end(self) -> None:
        waiting = Waiting()
        add()
        with executing() as executor:
            wait_until(lambda: waiting.begun)
            waiting.go_on()
            assert executor.stop(30)
        assert waiting.cancelled == []
        assert TaskRun.objects.get().outcome == RunOutcome.DONE

    def test_cancels_those_that_last_longer_and_gives_their_tasks_back(self, caplog: pytest.LogCaptureFixture) -> None:
        waiting = Waiting()
        for number in range(3):
            add(str(number))
        with executing() as executor:
            wait_until(lambda: len(waiting.begun) == 3)
            executor.stop(0.0)
        assert sorted(waiting.cancelled) == ["0", "1", "2"]
        rows = set(Task.objects.values_list("status", "attempts", "rescues"))
        assert rows == {(TaskStatus.PENDING, 0, 0)}
        runs = set(TaskRun.objects.values_list("outcome", "error", "exception"))
        assert runs == {(RunOutcome.LOST, "cut off: its executor was stopped (executing)", path_of(CutOff))}
        assert TaskRun.objects.count() == 3
        assert "cancelling 3 async runs that did not end in time, such as code " in caplog.text

    def test_does_so_with_thousands(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module, name in ((awaited_runs, "GRACE"), (executor_module, "GRACE")):
            monkeypatch.setattr(module, name, 30.0)  # seconds; a busy machine needs more than one
        waiting = Waiting()
        add_tasks(Task(biz_code="code", biz_num=str(number)) for number in range(2000))
        with executing(async_concurrency=2000) as executor:
            wait_until(lambda: len(waiting.begun) == 2000)
            executor.stop(0.0)
        assert Task.objects.filter(status=TaskStatus.PENDING, attempts=0, rescues=0).count() == 2000

    def test_what_a_cancelled_handler_still_returns_counts(self) -> None:
        begun = []

        async def handle(task: Any) -> Any:
            begun.append(task)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return Done(result="half of it")

        async_handler_of(handle)
        add()
        with executing() as executor:
            wait_until(lambda: begun)
            executor.stop(0.0)
        assert TaskRun.objects.get().result == "half of it"

    def test_leaves_behind_what_does_not_let_itself_be_cancelled(self) -> None:
        """Its task is given back when the executor has stopped."""
        begun: list[Any] = []
        end: list[bool] = []

        async def handle(task: Any) -> None:
            begun.append(task)
            while not end:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)

        async_handler_of(handle)
        add()
        with executing() as executor:
            wait_until(lambda: begun)
            assert not executor.stop(0.0)
        end.append(True)
        row = Task.objects.get()
        assert (row.status, row.attempts, row.rescues) == (TaskStatus.PENDING, 0, 0)

    def test_what_waits_for_its_turn_is_given_back_at_once(self) -> None:
        waiting = Waiting()
        for number in range(2):
            add(str(number))
        with executing(async_concurrency=1) as executor:
            wait_until(lambda: waiting.begun)
            # More than there is room for, as there is after a batch has raised.
            executor.held.add(more := claim(executor.lease.executor, lane=LOOP))
            executor.queue.put(more)
            wait_until(lambda: len(executor.awaited._tasks) == 2)
            stopping = start_thread(executor.stop)
            wait_until(lambda: Task.objects.filter(status=TaskStatus.PENDING).exists())
            waiting.go_on()
            assert stopping.result()
        assert waiting.cancelled == []
        assert Task.objects.get().attempts == 0
        assert TaskRun.objects.get().outcome == RunOutcome.DONE


class TestLostClaim:
    def test_of_a_dead_executor(self) -> None:
        """Another executor may run the task by now."""
        waiting = Waiting()
        add()
        with executing(heartbeat=0.1, lease=2.0) as executor:
            wait_until(lambda: waiting.begun)
            before = executor.lease.executor
            Executor.objects.filter(id=before).update(alive=None)
            wait_until(lambda: waiting.cancelled)
            assert executor.lease.executor != before
            waiting.go_on()
            wait_until(lambda: not Task.objects.exists())
        # Twice, if it was reaped and claimed once more before the executor learned that it is dead.
        assert set(waiting.cancelled) == {"1"}
        assert TaskRun.objects.filter(outcome=RunOutcome.DONE).count() == 1

    def test_that_a_report_of_progress_has_found(self) -> None:
        waiting = Waiting()
        add()
        with executing() as executor:
            wait_until(lambda: waiting.begun)
            [task] = executor.held.tasks()
            lose(task)
            wait_until(lambda: waiting.cancelled)
            wait_until(lambda: not executor.capacity.awaited)
        row = Task.objects.get()
        assert (row.status, row.attempts, row.rescues) == (TaskStatus.PENDING, 0, 0)
        assert TaskRun.objects.get().outcome == RunOutcome.LOST


@pytest.mark.parametrize(("most", "drain"), [(1, False), (6, False), (6, True)])
def test_max_tasks_are_run_if_all_are_async(most: int, drain: bool) -> None:
    ran: list[str] = []

    async def handle(task: Any) -> None:
        ran.append(task.biz_num)

    async_handler_of(handle)
    add_tasks(Task(biz_code="code", biz_num=str(number)) for number in range(10))
    with executing(threads=4, max_tasks=most, drain=drain) as executor:
        assert executor.drained.wait(60)
    assert len(ran) == most


def test_what_does_not_let_itself_be_cancelled_keeps_no_place_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next task runs, and the process is restarted if there are too many of them."""
    monkeypatch.setattr(awaited_runs, "GRACE", 0.0)
    ran: list[str] = []
    end: list[bool] = []

    async def handle(task: Any) -> None:
        ran.append(task.biz_num)
        while task.biz_num == "1" and not end:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    async_handler_of(handle, timeout=0.1, max_attempts=1)
    add("1")
    with executing(threads=1, async_concurrency=1, max_lost_threads=1) as executor:
        wait_until(lambda: TaskRun.objects.filter(biz_num="1").exists())
        add("2")
        wait_until(lambda: TaskRun.objects.filter(biz_num="2", outcome=RunOutcome.DONE).exists())
        wait_until(lambda: executor.awaited.count_lost() == 1)
        assert executor.health.trouble() == ""
        executor.health._max_lost = 0
        assert executor.health.trouble() == "more than 0 async runs do not end"
        end.append(True)
        wait_until(lambda: executor.awaited.count_lost() == 0)
