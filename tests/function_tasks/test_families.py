"""Functions of Django's own framework and of its backport, side by side in one process, with one setting."""

from typing import Any

import django
import pytest
from django_tasks import TaskResult, TaskResultStatus, default_task_backend, exceptions, signals

from django_delayed_tasks.backends.tasks import DelayedTasksBackend
from tests.executor.parts import drain
from tests.function_tasks import backported, framework, functions

pytestmark = pytest.mark.django_db(transaction=True)
core_only = pytest.mark.skipif(django.VERSION < (6, 0), reason="this Django has the backport only")


def test_each_has_its_own_classes() -> None:
    result: Any = backported.triple.enqueue(2)
    assert isinstance(result, TaskResult)
    drain()
    result.refresh()
    assert result.status is TaskResultStatus.SUCCESSFUL
    assert result.return_value == 6
    assert backported.triple.get_result(result.id) == result


@core_only
def test_both_run_in_one_executor_and_read_each_others_results() -> None:
    theirs: Any = backported.triple.enqueue(2)
    ours: Any = functions.add_up.enqueue(2)
    drain()
    assert [framework.default_task_backend.get_result(one.id).return_value for one in (theirs, ours)] == [6, 2]
    assert [default_task_backend.get_result(one.id).return_value for one in (theirs, ours)] == [6, 2]
    assert type(default_task_backend.get_result(ours.id)) is type(ours)
    assert not isinstance(ours, TaskResult)


def test_exceptions_are_those_of_who_asks() -> None:
    with pytest.raises(exceptions.TaskResultDoesNotExist):
        default_task_backend.get_result("123")
    with pytest.raises(exceptions.InvalidTaskError, match="Queue 'slow' is not valid"):
        backported.triple.using(backend="strict", queue_name="slow")
    with pytest.raises(framework.TaskResultDoesNotExist):
        framework.default_task_backend.get_result("123")
    with pytest.raises(exceptions.TaskResultMismatch):
        backported.triple.get_result(backported.describe.enqueue(fails=False).id)


def test_signals_and_context_are_those_of_the_function() -> None:
    heard: list[Any] = []

    def receive(sender: Any, task_result: Any, **_: Any) -> None:
        heard.append((sender, isinstance(task_result, TaskResult), str(task_result.status)))

    signals.task_finished.connect(receive)
    try:
        backported.describe.enqueue(fails=False)
        backported.describe.enqueue(fails=True)
        functions.add_up.enqueue(1)
        drain()
    finally:
        signals.task_finished.disconnect(receive)
    expected = [(DelayedTasksBackend, True, status) for status in ("FAILED", "SUCCESSFUL")]
    assert sorted(heard, key=str)[:2] == expected
    assert len(heard) == (2 if django.VERSION >= (6, 0) else 3)
