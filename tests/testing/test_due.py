"""``run_due_tasks``: the pipeline of an executor, in the transaction of a test."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, transaction
from django.utils import timezone, translation

from django_delayed_tasks import (
    Done,
    Fail,
    Reschedule,
    Retry,
    Task,
    TaskException,
    TaskHandler,
    TaskRun,
    add_task,
    cancel_task,
    get_runs,
    get_task_handlers,
    pause_queue,
    register_task_handler,
)
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.handlers.registry import withdraw
from django_delayed_tasks.leases import Pool
from django_delayed_tasks.models import Executor
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.testing import run_due_tasks
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, claim, handler_of, registered
from tests.function_tasks import functions

pytestmark = pytest.mark.django_db

DONE, RETRIED, FAILED = RunOutcome.DONE, RunOutcome.RETRIED, RunOutcome.FAILED
HOUR = timedelta(hours=1)


def numbers(runs: Any) -> list[str]:
    return [one.biz_num for one in runs]


def test_what_is_due_runs_in_this_transaction() -> None:
    seen: list[Any] = []
    handler_of(lambda task: seen.append((task.biz_num, connection.in_atomic_block)))
    add("due")
    add("later", when=HOUR)

    runs = run_due_tasks()

    assert seen == [("due", True)]
    assert runs.outcomes == [("code", "due", DONE)]
    assert list(Task.objects.values_list("biz_num", flat=True)) == ["later"]
    assert get_runs("code", "due").get().outcome == DONE


def test_nothing_due() -> None:
    handler_of(lambda task: None)
    assert run_due_tasks() == []
    assert repr(run_due_tasks()) == "<nothing ran>"


def test_runs_are_a_sequence() -> None:
    handler_of(lambda task: None)
    add("1")
    add("2")
    runs = run_due_tasks()
    assert runs == list(runs) == [*runs[:1], *runs[1:]]
    assert runs != runs[:1]
    assert runs != "text"
    assert runs.of("code", 2) == runs[1:]
    assert runs.of("other") == []
    assert runs.codes == ["code", "code"]


def test_no_executor_is_left() -> None:
    handler_of(lambda task: None)
    add()
    run_due_tasks()
    assert not Executor.objects.filter(alive=True).exists()


def test_the_order_is_that_of_priorities_and_times() -> None:
    def handle(task: Any) -> None:
        if task.biz_num == "second":
            add("urgent", priority=9)

    handler_of(handle)
    now = timezone.now()
    for number, seconds, priority in (("last", 1, -1), ("third", 1, 0), ("second", 2, 0), ("first", 0, 5)):
        add(number, when=now - timedelta(seconds=seconds), priority=priority)
        Task.objects.filter(biz_num=number).update(claim_at=now - timedelta(seconds=seconds))

    assert numbers(run_due_tasks()) == ["first", "second", "urgent", "third", "last"]


def test_a_run_says_what_it_left() -> None:
    handler_of(lambda task: Done(result={"sum": 3}), "sums")
    handler_of(lambda task: Reschedule(HOUR, biz_ext={"page": 2}), "pages")
    handler_of(lambda task: Retry(after=HOUR, reason="too busy"), "busy")
    handler_of(lambda task: Fail("no such order"), "orders")
    with frozen_at(timezone.now()):
        for code in ("sums", "pages", "busy", "orders"):
            add(code=code)
        runs = run_due_tasks()
        now = timezone.now()

    [summed], [paged], [busy], [failed] = (runs.of(code) for code in ("sums", "pages", "busy", "orders"))
    assert (summed.result, summed.status, summed.next_at) == ({"sum": 3}, None, None)
    assert (paged.outcome, paged.status) == (RunOutcome.RESCHEDULED, TaskStatus.PENDING)
    assert paged.next_at is not None
    assert abs(paged.next_at - now - HOUR) < timedelta(minutes=1)
    assert (busy.outcome, busy.reason, busy.status) == (RETRIED, "too busy", TaskStatus.PENDING)
    assert (failed.outcome, failed.reason, failed.status) == (FAILED, "no such order", TaskStatus.FAILED)
    assert "  orders 1 failed (no such order) [" in repr(runs)
    assert ", again at " in str(busy)


def test_an_error_is_found_on_the_run() -> None:
    def handle(task: Any) -> None:
        raise ValueError("no such order")

    handler_of(handle, max_attempts=1)
    add()
    [run] = runs = run_due_tasks()

    assert run.outcome == FAILED
    assert isinstance(run.exception, ValueError)
    assert "in handle" in run.error
    with pytest.raises(ValueError, match="no such order"):
        runs.raise_errors()


def test_a_reason_without_an_exception_is_raised_too() -> None:
    handler_of(lambda task: Fail("no such order"))
    add()
    with pytest.raises(AssertionError, match="code 1 failed"):
        run_due_tasks().raise_errors()


def test_good_runs_raise_nothing() -> None:
    handler_of(lambda task: None)
    add()
    runs = run_due_tasks()
    assert runs.raise_errors() is runs


def test_what_a_run_adds_runs_too() -> None:
    def handle(task: Any) -> None:
        if task.biz_num != "3":
            add(str(int(task.biz_num) + 1))

    handler_of(handle)
    add("1")
    assert numbers(run_due_tasks()) == ["1", "2", "3"]


def test_a_retry_that_is_due_at_once_runs_too() -> None:
    def handle(task: Any) -> Retry | None:
        return Retry(after=timedelta()) if task.attempts < 3 else None

    handler_of(handle)
    add()
    runs = run_due_tasks()
    assert [(run.attempt, run.outcome) for run in runs] == [(1, RETRIED), (2, RETRIED), (3, DONE)]


def test_final_failures_are_reported() -> None:
    told: list[Any] = []

    class Failing(TaskHandler):
        biz_code = "code"
        max_attempts = 1

        def handle(self, task: Any) -> None:
            raise ValueError("no")

        def on_failed(self, task: Any, error: str, exception: BaseException | None = None) -> None:
            told.append((task.biz_num, exception))

    register_task_handler(Failing)
    add()
    [run] = run_due_tasks()
    assert told == [("1", run.exception)]


def test_an_atomic_run_is_rolled_back_when_it_fails() -> None:
    def handle(task: Any) -> None:
        Executor.objects.create(
            name="effect", host="h", pid=1, threads=1,
            started_at=timezone.now(), heartbeat_at=timezone.now(), expires_at=timezone.now(),
        )  # fmt: skip
        if task.biz_num == "bad":
            raise ValueError("no")

    handler_of(handle, atomic=True)
    add("bad")
    [run] = run_due_tasks()
    assert (run.outcome, run.status) == (RETRIED, TaskStatus.PENDING)
    assert not Executor.objects.filter(host="h").exists()

    add("good")
    [run] = run_due_tasks()
    assert (run.outcome, run.status) == (DONE, None)
    assert Executor.objects.filter(host="h").exists()


def test_a_batch_is_one_call() -> None:
    calls: list[int] = []

    class Batched(TaskHandler):
        biz_code = "code"
        batch_size = 20

        def handle_batch(self, tasks: list[Any]) -> list[Any]:
            calls.append(len(tasks))
            return [Fail("no") if task.biz_num == "7" else None for task in tasks]

    register_task_handler(Batched)
    for number in range(30):
        add(str(number))
    runs = run_due_tasks()
    assert calls == [20, 10]
    assert len(runs) == 30
    assert [run.biz_num for run in runs if run.outcome == FAILED] == ["7"]


def test_a_batch_that_raises_is_run_one_by_one() -> None:
    calls: list[list[str]] = []

    class Batched(TaskHandler):
        biz_code = "code"

        def handle_batch(self, tasks: list[Any]) -> None:
            calls.append(numbers(tasks))
            if any(task.biz_num == "2" for task in tasks):
                raise ValueError("2 is odd")

    register_task_handler(Batched)
    for number in ("1", "2", "3"):
        add(number)
    runs = run_due_tasks()
    assert calls == [["1", "2", "3"], ["1"], ["2"], ["3"]]
    assert runs.outcomes == [("code", "1", DONE), ("code", "2", RETRIED), ("code", "3", DONE)]


def test_async_handlers_query_in_this_transaction() -> None:
    seen: list[Any] = []

    async def handle(task: Any) -> Done:
        seen.append(await Task.objects.acount())
        return Done(result=connection.in_atomic_block)

    async_handler_of(handle)
    add("1")
    add("later", when=HOUR)
    [run] = run_due_tasks()
    assert (run.outcome, seen) == (DONE, [2])


def test_an_async_handler_that_raises_is_tried_again() -> None:
    async def handle(task: Any) -> None:
        raise ValueError("no")

    async_handler_of(handle)
    add()
    [run] = run_due_tasks()
    assert (run.outcome, str(run.exception)) == (RETRIED, "no")


def test_a_test_that_is_a_coroutine_runs_tasks_too() -> None:
    async def handle(task: Any) -> Done:
        return Done(result=await Task.objects.acount())

    async_handler_of(handle)
    add()
    [run] = async_to_sync(sync_to_async(run_due_tasks))()
    assert (run.outcome, run.result) == (DONE, 1)


def test_function_tasks_run() -> None:
    good, bad = functions.add_up.enqueue(1, 2, start=3), functions.fail.enqueue("no")
    runs = run_due_tasks()
    assert [run.outcome for run in runs.of(functions.add_up)] == [DONE]
    assert [str(run.exception) for run in runs.of(functions.fail)] == ["no"]
    good.refresh()
    bad.refresh()
    assert good.return_value == 6
    assert bad.attempts == 1


def test_tasks_of_a_limited_handler_run() -> None:
    handler_of(lambda task: None, max_concurrent=1)
    for number in ("1", "2", "3"):
        add(number)
    assert numbers(run_due_tasks()) == ["1", "2", "3"]


def test_limited_tasks_come_in_the_order_of_priorities_too() -> None:
    handler_of(lambda task: None, "free")
    handler_of(lambda task: None, "limited", max_concurrent=2)
    for code, priority in (("free", 1), ("limited", 2), ("limited", 0), ("free", -1), ("free", 3)):
        add(f"{priority}", code=code, priority=priority)
    assert numbers(run_due_tasks()) == ["3", "2", "1", "0", "-1"]


def test_tasks_without_a_permit_stay() -> None:
    handler_of(lambda task: None, rate="2/h")
    for number in ("1", "2", "3", "4"):
        add(number)
    assert numbers(run_due_tasks()) == ["1", "2"]
    left = Task.objects.values_list("status", "attempts")
    assert list(left) == [(TaskStatus.PENDING, 0)] * 2


def test_a_resource_of_its_pool_is_lent_to_a_run() -> None:
    seen: list[Any] = []
    proxies = Pool("proxies")
    proxies.add("p1", payload={"host": "10.0.0.1"})
    handler_of(lambda task: seen.append((task.resource.name, task.resource.payload)), pool="proxies")
    add("1")
    add("2")
    assert numbers(run_due_tasks()) == ["1", "2"]
    assert seen == [("p1", {"host": "10.0.0.1"})] * 2


def test_tasks_wait_for_a_resource_that_another_process_holds() -> None:
    proxies = Pool("proxies")
    proxies.add("p1")
    handler_of(lambda task: None, pool="proxies")
    handler_of(lambda task: None, "free")
    add("1")
    add("1", code="free")
    with proxies.lease():
        assert run_due_tasks().codes == ["free"]
    assert run_due_tasks().codes == ["code"]


def test_an_expired_task_does_not_run() -> None:
    ran: list[str] = []
    handler_of(lambda task: ran.append(task.biz_num))
    add(expires_at=timezone.now() - HOUR)
    [run] = run_due_tasks()
    assert (run.outcome, run.started, ran) == (RunOutcome.EXPIRED, None, [])


def test_a_schedule_that_came_during_the_run_is_kept() -> None:
    def handle(task: Any) -> None:
        if task.biz_ext != "again":
            add_task(Task(biz_code="code", biz_num="1", when=HOUR, biz_ext="again"))

    handler_of(handle)
    add()
    [run] = run_due_tasks()
    assert (run.outcome, run.status) == (DONE, TaskStatus.PENDING)
    assert Task.objects.get().biz_ext == "again"


def test_a_run_that_was_cancelled_meanwhile_is_not_tried_again() -> None:
    def handle(task: Any) -> None:
        cancel_task("code", "1")
        assert task.cancel_requested
        raise ValueError("stopped")

    handler_of(handle)
    add()
    [run] = run_due_tasks()
    assert (run.outcome, run.status) == (RunOutcome.CANCELLED, None)


def test_the_outcome_is_known_without_a_history() -> None:
    handler_of(lambda task: None, keep_history="none")
    handler_of(lambda task: None, "atomic", keep_history="none", atomic=True)
    add()
    add(code="atomic")
    assert sorted(run_due_tasks().outcomes) == [("atomic", "1", DONE), ("code", "1", DONE)]
    assert not TaskRun.objects.exists()


def test_a_paused_queue_does_not_run() -> None:
    handler_of(lambda task: None)
    add()
    pause_queue("default")
    assert run_due_tasks() == []


def test_a_task_without_a_handler_stays() -> None:
    handler_of(lambda task: None)
    handler_of(lambda task: None, "old")
    add(code="old")
    add()
    withdraw(get_task_handlers()["old"])
    assert run_due_tasks().codes == ["code"]
    assert Task.objects.get().biz_code == "old"


def test_a_run_finds_a_clean_context() -> None:
    seen: list[str] = []
    handler_of(lambda task: seen.append(translation.get_language()))
    add()
    with translation.override("de"):
        run_due_tasks()
    assert seen == ["en-us"]


def test_an_endless_task_is_reported() -> None:
    handler_of(lambda task: timedelta())
    add()
    with pytest.raises(TaskException, match="no end of due tasks after 20 runs: 21 of code"):
        run_due_tasks(max_runs=20)
    assert not Executor.objects.filter(alive=True).exists()


def test_a_transaction_of_the_test_is_refused() -> None:
    handler_of(lambda task: None)
    with transaction.atomic(), pytest.raises(TaskException, match="inside a transaction"):
        run_due_tasks()


def test_a_run_runs_no_tasks() -> None:
    handler_of(lambda task: run_due_tasks(), max_attempts=1)
    add()
    [run] = run_due_tasks()
    assert "within a run" in run.reason


def test_the_end_of_a_test_is_not_swallowed() -> None:
    handler_of(lambda task: pytest.fail("this handler is not to be called"))
    add()
    with pytest.raises(pytest.fail.Exception, match="not to be called"):
        run_due_tasks()


def test_tasks_of_a_dead_executor_are_rescued() -> None:
    handler_of(lambda task: None)
    add()
    executor = registered("dead")
    claim(executor)
    Executor.objects.filter(pk=executor).update(alive=None)
    [run] = run_due_tasks()
    assert (run.outcome, run.attempt) == (DONE, 1)


@pytest.mark.django_db(transaction=True)
def test_it_works_without_a_transaction_too() -> None:
    seen: list[bool] = []
    handler_of(lambda task: seen.append(connection.in_atomic_block))
    handler_of(lambda task: seen.append(connection.in_atomic_block), "atomic", atomic=True)
    add()
    add(code="atomic")
    assert sorted(run_due_tasks().outcomes) == [("atomic", "1", DONE), ("code", "1", DONE)]
    assert sorted(seen) == [False, True]
