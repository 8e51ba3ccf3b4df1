"""Planned faults: a handler is run as if its executor, or a service, had failed."""

from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import TaskHandler, register_task_handler
from django_delayed_tasks.exceptions import ClaimLost, UnknownCode
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.testing import crash_next, fail_next, forget_faults, lose_claim_next, run_due_tasks, run_until
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, handler_of
from tests.testing.test_in_test_case import effects, write

pytestmark = pytest.mark.django_db

DONE, RETRIED, LOST = RunOutcome.DONE, RunOutcome.RETRIED, RunOutcome.LOST


def test_a_failure_comes_in_place_of_the_handler() -> None:
    handler_of(lambda task: write())
    add()
    fail_next("code", ConnectionError("no route"))
    [run] = run_due_tasks()
    assert (run.outcome, run.reason) == (RETRIED, "ConnectionError: no route")
    assert effects() == []


def test_only_the_next_run_fails() -> None:
    handler = handler_of(lambda task: write(task.biz_num))
    fail_next(handler, ConnectionError)
    add("1")
    add("2")
    assert run_due_tasks().outcomes == [("code", "1", RETRIED), ("code", "2", DONE)]


def test_two_failures_in_a_row() -> None:
    handler_of(lambda task: None, backoff=lambda self, attempt: timedelta())
    add()
    fail_next("code", ConnectionError)
    fail_next("code", TimeoutError)
    assert [type(run.exception) for run in run_due_tasks()] == [ConnectionError, TimeoutError, type(None)]


def test_other_codes_are_spared() -> None:
    handler_of(lambda task: None)
    handler_of(lambda task: None, "other")
    fail_next("other", ConnectionError)
    add()
    assert run_due_tasks().outcomes == [("code", "1", DONE)]


def test_effects_of_a_crashed_run_happen_twice(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []
    handler_of(lambda task: seen.append(task.attempts))
    add()
    crash_next("code")
    runs = run_due_tasks()
    assert runs.outcomes == [("code", "1", LOST), ("code", "1", DONE)]
    assert seen == [1, 1]
    assert "django_delayed_tasks.executor.membership.reaper" in [record.name for record in caplog.records]


def test_effects_of_a_crashed_atomic_run_happen_once() -> None:
    handler_of(lambda task: write(), atomic=True)
    add()
    crash_next("code")
    assert run_due_tasks().outcomes == [("code", "1", LOST), ("code", "1", DONE)]
    assert effects() == ["effect"]


def test_a_task_that_crashes_its_executor_again_and_again_fails() -> None:
    told: list[str] = []
    handler_of(lambda task: None, on_failed=lambda self, task, error: told.append(error))
    add()
    for _ in range(4):
        crash_next("code")
    runs = run_until(timedelta(hours=1))
    assert [run.outcome for run in runs] == [LOST] * 4
    assert runs[-1].status is not None
    assert runs[-1].status.name == "FAILED"
    assert len(told) == 1


@pytest.mark.parametrize("is_atomic", [False, True], ids=["plain", "atomic"])
def test_a_lost_claim_is_seen_by_the_handler(is_atomic: bool) -> None:
    seen: list[Any] = []

    def handle(task: Any) -> None:
        write(f"effect {task.fencing_token}")
        try:
            task.check_claim()
        except ClaimLost:
            seen.append("lost")
            raise
        seen.append("held")

    handler_of(handle, atomic=is_atomic)
    add()
    lose_claim_next("code")
    assert run_due_tasks().outcomes == [("code", "1", LOST), ("code", "1", DONE)]
    assert seen == ["lost", "held"]
    assert len(effects()) == (1 if is_atomic else 2)


@pytest.mark.parametrize("is_atomic", [False, True], ids=["plain", "atomic"])
def test_a_run_that_does_not_ask_settles_nothing(is_atomic: bool) -> None:
    seen: list[int] = []
    handler_of(lambda task: seen.append(task.fencing_token), atomic=is_atomic)
    add()
    lose_claim_next("code")
    assert run_due_tasks().outcomes == [("code", "1", LOST), ("code", "1", DONE)]
    assert seen[1] - seen[0] == 2


@pytest.mark.parametrize("plan", [crash_next, lose_claim_next])
def test_faults_of_async_handlers(plan: Any) -> None:
    seen: list[int] = []

    async def handle(task: Any) -> None:
        seen.append(task.attempts)

    async_handler_of(handle)
    add()
    plan("code")
    assert run_due_tasks().outcomes == [("code", "1", LOST), ("code", "1", DONE)]
    assert seen == [1, 1]


def test_a_failure_of_an_async_handler() -> None:
    async def handle(task: Any) -> None:
        raise AssertionError("not called")

    async_handler_of(handle)
    add()
    fail_next("code", ConnectionError("no route"))
    assert isinstance(run_due_tasks()[0].exception, ConnectionError)


@pytest.mark.parametrize("plan", [crash_next, lose_claim_next])
def test_faults_of_batches(plan: Any) -> None:
    calls: list[int] = []

    class Batched(TaskHandler):
        biz_code = "code"

        def handle_batch(self, tasks: list[Any]) -> None:
            calls.append(len(tasks))

    register_task_handler(Batched)
    add("1")
    add("2")
    plan(Batched)
    assert sorted(run_due_tasks().outcomes) == sorted([("code", n, o) for n in "12" for o in (LOST, DONE)])
    assert calls == [2, 1, 1]


def test_a_block_wants_its_fault_to_be_met() -> None:
    handler_of(lambda task: None)
    with (
        pytest.raises(AssertionError, match="no run of 'code' has met the planned failure"),
        fail_next("code", ConnectionError),
    ):
        run_due_tasks()
    add()
    assert run_due_tasks()[0].outcome == DONE


def test_a_block_whose_fault_was_met() -> None:
    handler_of(lambda task: None)
    add()
    with crash_next("code"):
        run_due_tasks()


def test_a_handler_is_as_before_after_its_fault() -> None:
    handler = handler_of(lambda task: None)
    before = dict(vars(handler))
    add()
    with fail_next("code", ConnectionError):
        run_due_tasks()
    assert vars(handler) == before


@pytest.mark.parametrize("plan", [crash_next, lose_claim_next, lambda code: fail_next(code, ConnectionError)])
def test_a_fault_of_an_unknown_code_is_refused(plan: Any) -> None:
    handler_of(lambda task: None)
    with pytest.raises(UnknownCode, match="did you mean 'code'"):
        plan("coed")
    assert forget_faults() == []


@pytest.mark.parametrize("error", ["no route", None, int])
def test_what_is_no_exception_is_refused(error: Any) -> None:
    handler_of(lambda task: None)
    with pytest.raises(TypeError, match="fail_next needs an exception, such as"):
        fail_next("code", error)
    assert forget_faults() == []


def test_faults_that_were_not_met_are_named() -> None:
    handler_of(lambda task: None)
    fail_next("code", ConnectionError)
    assert forget_faults() == ["code"]
    assert forget_faults() == []


class TestForgotten:
    """A fault is forgotten with the transaction of its test."""

    @pytest.mark.parametrize("number", [1, 2])
    def test_it_is_not_there_in_another_test(self, number: int) -> None:
        handler_of(lambda task: None)
        add()
        assert run_due_tasks()[0].outcome == DONE
        fail_next("code", ConnectionError)
