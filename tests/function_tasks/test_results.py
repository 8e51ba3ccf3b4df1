"""From enqueuing over an executor to the result."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_delayed_tasks.function_tasks.handler import forget_all
from django_delayed_tasks.function_tasks.ids import id_of, key_of
from django_delayed_tasks.models import Task, TaskRun
from tests.executor.parts import drain, executing
from tests.function_tasks import functions
from tests.function_tasks.framework import TaskResultDoesNotExist, TaskResultStatus, default_task_backend

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]


def test_what_is_enqueued_reads_back_equal() -> None:
    moment = timezone.now() + timedelta(hours=1)
    task: Any = functions.add_up
    for chosen in (
        task,
        task.using(priority=7, queue_name="quick", run_after=moment, backend="default"),
        task.using(biz_num="order-17", expires=moment),
        task.using(run_after=timedelta(minutes=5), expires=timedelta(hours=2), biz_num=12),
    ):
        result = chosen.enqueue(1, 2, start=3)
        assert result.status == TaskResultStatus.READY
        assert task.get_result(result.id) == result


def test_enqueuing_is_one_statement_and_part_of_the_transaction() -> None:
    functions.add_up.enqueue()
    with CaptureQueriesContext(connection) as queries:
        functions.add_up.enqueue(1)
    assert [query["sql"].split()[0] for query in queries if "notify" not in query["sql"]] == ["INSERT"]
    with transaction.atomic(), CaptureQueriesContext(connection) as queries:
        functions.add_up.enqueue(1)
    assert [query["sql"].split()[0] for query in queries] == ["INSERT"]
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        result = functions.add_up.enqueue(2)
        _ = 1 / 0
    with pytest.raises(TaskResultDoesNotExist):
        functions.add_up.get_result(result.id)


def test_an_executor_runs_it() -> None:
    result = functions.add_up.enqueue(1, 2, start=3)
    drain()
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.return_value == 6
    assert result.attempts == 1
    moments: list[Any] = [result.enqueued_at, result.started_at, result.last_attempted_at, result.finished_at]
    assert moments == sorted(moments)
    assert result.started_at == result.last_attempted_at
    assert not Task.objects.filter(biz_num__contains="-").exists()
    assert default_task_backend.get_result(result.id) == result


@pytest.mark.parametrize("biz_num", [None, "order-17", "60c8b1f0a1b2-0123456789abcdef"])
def test_when_it_was_enqueued_is_known_from_its_number_or_its_data(biz_num: str | None) -> None:
    task: Any = functions.add_up
    result = task.using(biz_num=biz_num).enqueue(1)
    assert ("enqueued_at" in Task.objects.get().biz_ext) is (biz_num is not None)
    assert functions.add_up.get_result(result.id).enqueued_at == result.enqueued_at
    drain()
    assert functions.add_up.get_result(result.id).enqueued_at == result.enqueued_at


def test_a_coroutine_function_runs_too() -> None:
    result: Any = functions.double.enqueue(21)
    drain()
    result.refresh()
    assert result.return_value == 42


def test_coroutine_functions_run_on_one_event_loop() -> None:
    """Each of them waits for the others, and there is one thread."""
    results: list[Any] = [functions.meet.enqueue(10) for _ in range(10)]
    drain(threads=1)
    for result in results:
        result.refresh()
    assert [result.return_value for result in results] == [10] * 10
    assert len(set(functions.calls)) == 1


def test_a_coroutine_function_that_fails() -> None:
    result: Any = functions.fail_later.enqueue("no")
    drain()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    [error] = result.errors
    assert error.exception_class is ValueError
    assert "fail_later" in error.traceback


def test_the_context_of_a_coroutine_function() -> None:
    result: Any = functions.describe_later.enqueue()
    drain()
    result.refresh()
    assert result.return_value == [1, False]


def test_a_priority_may_be_any_whole_number() -> None:
    result: Any = functions.whole.enqueue()
    assert Task.objects.get().priority == 5
    drain()
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL


def test_the_context_has_the_result_and_the_claim() -> None:
    result: Any = functions.describe.enqueue()
    drain()
    result.refresh()
    run = TaskRun.objects.get()
    assert result.return_value == [result.id, 1, False, (run.task_id << 24) + run.version]


def test_one_attempt_is_the_default() -> None:
    result = functions.fail.enqueue("no")
    drain()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    [error] = result.errors
    assert error.exception_class is ValueError
    assert error.traceback.endswith("ValueError: no\n")
    assert result.args == ["no"]
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_arguments_may_have_any_name() -> None:
    task: Any = functions.take_names
    result = task.enqueue(function="a", task="b", args="c")
    drain()
    assert task.get_result(result.id).return_value == ["a", "b", "c"]


def test_a_path_that_is_longer_than_a_code() -> None:
    task: Any = functions.a_function_whose_name_is_longer_than_a_code_may_be
    result = task.enqueue()
    code = Task.objects.get().biz_code
    assert (len(code), code[11:]) == (50, task.module_path[-39:])
    drain()
    assert task.get_result(result.id).return_value == "long"


@pytest.mark.parametrize("value", [1, -0.5, "x", True, None, [1, [2]], {"a": {"b": [None]}}, "日本 \U0001f600", 2**63])
def test_values_come_back_equal(value: Any) -> None:
    result = functions.give.enqueue(value)
    drain()
    found = functions.give.get_result(result.id)
    assert functions.calls == [value]
    assert found.return_value == value
    assert found.args == [value] == result.args


def test_ids_that_were_never_given_out() -> None:
    result = functions.add_up.enqueue()
    [task] = Task.objects.all()
    key, other = key_of(result.id), id_of(task.pk, "another number")
    assert key == task.pk
    for wrong in ("123", "", "x" * 64, str(uuid.uuid4()), other, id_of(task.pk + 1, task.biz_num), None, 5, "\0"):
        with pytest.raises(TaskResultDoesNotExist):
            default_task_backend.get_result(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [1, 4095, 4096, 2**31, 2**60 - 1])
def test_an_id_holds_any_primary_key(key: int) -> None:
    text = id_of(key, "number")
    assert key_of(text) == key
    assert uuid.UUID(text).version == 8
    assert uuid.UUID(text).variant == uuid.RFC_4122


def test_a_drain_waits_for_a_coroutine_function_that_it_had_to_import() -> None:
    """It was claimed as if it were for a thread, since no async handler was known."""
    result: Any = functions.wait_on_the_loop.enqueue()
    forget_all()
    with executing(drain=True) as executor:
        assert functions.started.wait(30)
        assert not executor.drained.wait(0.3)
        functions.may_end.set()
        assert executor.drained.wait(30)
        result.refresh()
        assert result.return_value == "told"
