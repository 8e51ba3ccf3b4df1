"""Business identities, enqueuing many, on commit, and waiting for results."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_delayed_tasks.models import Task, TaskRun
from tests.executor.parts import drain, executing
from tests.function_tasks import functions
from tests.function_tasks.framework import InvalidTask, TaskResultStatus, default_task_backend
from tests.threads import start_thread

pytestmark = pytest.mark.django_db(transaction=True)
backend: Any = default_task_backend
give: Any = functions.give


def test_enqueuing_an_identity_again_reschedules_it() -> None:
    first = give.using(biz_num="order-17", run_after=timedelta(hours=1)).enqueue("late")
    second = give.using(biz_num="order-17").enqueue("now")
    assert second.id == first.id
    assert Task.objects.get().biz_num == "order-17"
    drain()
    assert functions.calls == ["now"]
    first.refresh()
    assert (first.status, first.return_value) == (TaskResultStatus.SUCCESSFUL, "now")


def test_an_identity_that_is_enqueued_while_it_runs_runs_again_afterwards() -> None:
    task: Any = functions.wait_until_told
    first = task.using(biz_num="order-17").enqueue()
    with executing():
        assert functions.started.wait(10)
        functions.started.clear()
        second = task.using(biz_num="order-17").enqueue()
        functions.may_end.set()
        assert functions.started.wait(10)
        assert backend.wait(second.id, 10).return_value == "told"
    assert second.id == first.id
    assert TaskRun.objects.count() == 2


def test_an_identity_after_it_has_ended_has_a_result_of_its_own() -> None:
    task: Any = functions.fail_until
    first = task.using(biz_num="1").enqueue(2)
    drain()
    second = task.using(biz_num="1").enqueue(1)
    assert second.id != first.id
    drain()
    assert (task.get_result(first.id).attempts, task.get_result(second.id).attempts) == (2, 1)


def test_what_has_succeeded_once_is_not_enqueued_again() -> None:
    once = give.using(biz_num="invoice-1", once=True)
    first = once.enqueue(1)
    drain()
    again = once.enqueue(2)
    assert (again.id, again.status, again.return_value) == (first.id, TaskResultStatus.SUCCESSFUL, 1)
    TaskRun.objects.all().delete()
    assert once.enqueue(3).status == TaskResultStatus.SUCCESSFUL
    assert not Task.objects.filter(biz_num="invoice-1").exists()
    assert functions.calls == [1]


def test_once_needs_an_identity() -> None:
    with pytest.raises(InvalidTask, match="once=True needs a biz_num"):
        give.using(once=True)


def test_many_are_enqueued_in_few_statements() -> None:
    with CaptureQueriesContext(connection) as queries:
        results = give.bulk_enqueue(([number], {}) for number in range(100))
    assert len([query for query in queries if "INSERT" in query["sql"]]) == 1
    assert [result.args for result in results] == [[number] for number in range(100)]
    drain()
    assert [give.get_result(result.id).return_value for result in results] == list(range(100))


def test_many_of_different_functions_and_identities() -> None:
    calls: list[Any] = [
        (give, ("a",), {}),
        (functions.add_up, (1, 2), {}),
        (give.using(biz_num="x", once=True), ("b",), {}),
    ]
    drained = backend.bulk_enqueue(calls)
    drain()
    assert [backend.get_result(result.id).return_value for result in drained] == ["a", 3, "b"]
    assert backend.bulk_enqueue(calls[2:])[0].id == drained[2].id


def test_nothing_is_written_if_one_of_many_is_wrong() -> None:
    with pytest.raises(ValueError, match="NUL"):
        give.bulk_enqueue([(["fine"], {}), (["\0"], {})])
    assert not Task.objects.exists()


def test_enqueuing_on_commit() -> None:
    with transaction.atomic():
        give.enqueue_on_commit(1)
        assert not Task.objects.exists()
    assert Task.objects.count() == 1
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        give.enqueue_on_commit(2)
        _ = 1 / 0
    assert Task.objects.count() == 1


def test_waiting_for_a_result() -> None:
    result = give.enqueue(5)
    with pytest.raises(TimeoutError, match=r"is still READY after 0\.05 s"):
        backend.wait(result.id, 0.05)
    thread = start_thread(drain)
    assert backend.wait(result.id, timedelta(seconds=30)).return_value == 5
    thread.join()
