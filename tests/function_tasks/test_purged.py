"""Results whose runs the history no longer has: what is still known is said, and nothing that is not known."""

import pickle
from datetime import timedelta
from typing import Any

import django
import pytest
from django.utils import timezone

from django_delayed_tasks import api
from django_delayed_tasks.function_tasks.families import families, family_of
from django_delayed_tasks.models import Success, Task, TaskRun
from tests.executor.parts import claim, drain, registered
from tests.function_tasks import functions
from tests.function_tasks.framework import TaskResultDoesNotExist, TaskResultStatus, default_task_backend

pytestmark = pytest.mark.django_db(transaction=True)
backend: Any = default_task_backend
give: Any = functions.give
once: Any = give.using(biz_num="invoice-1", once=True)


def done_and_purged() -> Any:
    """Return the result of an identity that was done once and purged, as a caller gets it who enqueues it again."""
    once.enqueue("the first")
    drain()
    TaskRun.objects.all().delete()
    return once.enqueue("the second")


def test_what_was_done_once_has_its_result_while_the_history_has_it() -> None:
    first = once.enqueue(1)
    drain()
    again = once.enqueue(2)
    assert (again.id, again.status, again.return_value) == (first.id, TaskResultStatus.SUCCESSFUL, 1)
    assert functions.calls == [1]


def test_a_later_failure_is_not_what_was_done() -> None:
    """The identity may be enqueued again without ``once``."""
    first = once.enqueue(1)
    drain()
    give.using(biz_num="invoice-1", run_after=timedelta(hours=1)).enqueue(2)
    api.cancel_task(give.module_path, "invoice-1")
    again = once.enqueue(3)
    assert (again.id, again.return_value) == (first.id, 1)


def test_what_was_done_once_and_is_purged_succeeded_and_has_no_value() -> None:
    result = done_and_purged()
    assert (result.status, result.is_finished) == (TaskResultStatus.SUCCESSFUL, True)
    assert result.finished_at == Success.objects.get().succeeded_at
    with pytest.raises(ValueError, match=r"no longer kept: the task succeeded on 20.* UTC, and the hist"):
        _ = result.return_value
    assert (result.args, result.kwargs, result.enqueued_at, result.attempts) == ([], {}, None, 0)
    assert functions.calls == ["the first"]
    assert repr(result) == f"<TaskResult {result.id}: SUCCESSFUL {give.module_path}>"


def test_its_result_is_found_by_its_id_and_is_the_same_each_time() -> None:
    result = done_and_purged()
    assert backend.get_result(result.id) == result == once.enqueue("the third")
    assert backend.bulk_enqueue([(once, (1,), {})]) == [result]
    assert backend.wait(result.id, 1) == result
    result.refresh()
    with pytest.raises(ValueError, match="no longer kept"):
        _ = result.return_value


@pytest.mark.skipif(django.VERSION < (6, 1), reason="functions cannot be pickled")
def test_it_can_be_pickled() -> None:
    result = done_and_purged()
    assert pickle.loads(pickle.dumps(result)) == result


def test_each_family_has_such_results() -> None:
    for family in families():
        assert issubclass(family.purged_result, family.base.TaskResult)
    assert isinstance(done_and_purged(), family_of(give).purged_result)


def test_its_id_is_that_of_no_task() -> None:
    result = done_and_purged()
    assert backend.get_result(result.id).task.once
    for call in (backend.cancel, backend.enqueue_again):
        with pytest.raises(TaskResultDoesNotExist):
            call(result.id)
    assert api.forget(give.module_path, "invoice-1")
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(result.id)
    again = once.enqueue("again")
    drain()
    assert backend.get_result(again.id).return_value == "again"


def test_a_path_that_is_longer_than_a_code() -> None:
    task: Any = functions.a_function_whose_name_is_longer_than_a_code_may_be
    one = task.using(biz_num="1", once=True)
    one.enqueue()
    drain()
    TaskRun.objects.all().delete()
    result = one.enqueue()
    assert backend.get_result(result.id) == result


def fail(attempts: int) -> Any:
    """Return the result of a function after this many attempts that failed."""
    result = functions.fail_until.enqueue(9)
    for _ in range(attempts):
        drain()
        Task._base_manager.filter(status=0).update(claim_at=timezone.now() - timedelta(seconds=1))
    return result


@pytest.mark.parametrize("purged", [0, 1, 2, 3])
def test_a_failed_result_keeps_what_the_row_knows(purged: int) -> None:
    result = fail(3)
    result.refresh()
    finished = result.finished_at
    oldest = list(TaskRun.objects.order_by("id").values_list("id", flat=True)[:purged])
    TaskRun.objects.filter(id__in=oldest).delete()
    result.refresh()
    assert (result.status, result.attempts, result.args) == (TaskResultStatus.FAILED, 3, [9])
    assert result.worker_ids[:purged] == [""] * purged
    assert all(result.worker_ids[purged:])
    assert result.errors[-1].traceback.endswith("ValueError: attempt 3\n")
    assert abs(result.finished_at - finished) < timedelta(seconds=5)


def test_a_result_that_is_no_longer_a_row_keeps_the_number_of_its_attempts() -> None:
    task: Any = functions.fail_until
    result = task.enqueue(3)
    drain()
    TaskRun.objects.filter(attempt__lt=3).delete()
    result.refresh()
    assert (result.status, result.attempts, result.return_value) == (TaskResultStatus.SUCCESSFUL, 3, 3)


def test_a_waiting_result_keeps_the_number_of_its_attempts() -> None:
    result = functions.fail_until.enqueue(9)
    drain()
    Task._base_manager.filter(biz_code=functions.fail_until.module_path).update(status=0, attempts=2)
    TaskRun.objects.all().delete()
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 2)
    backend.cancel(result.id)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 2)


def test_a_running_attempt_has_its_number() -> None:
    """Short retention, and a long pause before the next attempt."""
    task: Any = functions.fail_until
    result = task.enqueue(2)
    Task._base_manager.filter(biz_code=task.module_path).update(attempts=1)
    drain()
    result.refresh()
    assert result.return_value == 2
    second = task.enqueue(2)
    Task._base_manager.filter(biz_code=task.module_path).update(attempts=1)
    claim(registered())
    second.refresh()
    assert (second.status, second.attempts) == (TaskResultStatus.RUNNING, 2)
