"""Business identities, enqueuing many, on commit, and waiting for results."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_delayed_tasks import Cron, Interval
from django_delayed_tasks.exceptions import InvalidTrigger
from django_delayed_tasks.function_tasks import enqueuing
from django_delayed_tasks.function_tasks.families import families
from django_delayed_tasks.models import Task, TaskRun
from tests.executor.parts import drain, executing
from tests.function_tasks import functions
from tests.function_tasks.framework import InvalidTask, TaskResultStatus, default_task_backend
from tests.threads import start_thread

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]
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


def test_once_needs_an_identity() -> None:
    with pytest.raises(InvalidTask, match="once=True needs a biz_num"):
        give.using(once=True)


def test_a_number_that_is_not_new_after_all_replaces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueuing, "new_number", lambda now: "1-a")
    first = give.enqueue(1)
    with pytest.raises(IntegrityError):
        give.enqueue(2)
    assert [task.biz_num for task in Task.objects.all()] == ["1-a"]
    assert give.get_result(first.id).args == [1]


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


def test_what_is_enqueued_on_commit_is_what_was_passed() -> None:
    """A call that cannot be written fails at once, not after the commit of what belongs to it."""
    with transaction.atomic():
        with pytest.raises(ValueError, match="NUL"):
            give.enqueue_on_commit("\0")
        numbers = [1]
        give.enqueue_on_commit(numbers)
        numbers.append(2)
    assert Task.objects.get().biz_ext["args"] == [[1]]


def test_enqueuing_on_commit_with_another_backend(settings: Any) -> None:
    """As in a project's tests, which replace the backend."""
    settings.TASKS = {"default": {"BACKEND": f"{families()[0].root}.backends.dummy.DummyBackend"}}
    with transaction.atomic():
        give.enqueue_on_commit(1)
    assert [result.args for result in give.get_backend().results] == [[1]]


def test_waiting_for_a_result() -> None:
    result = give.enqueue(5)
    with pytest.raises(TimeoutError, match=r"is still READY after 0\.05 s"):
        backend.wait(result.id, 0.05)
    thread = start_thread(drain)
    assert backend.wait(result.id, timedelta(seconds=30)).return_value == 5
    thread.join()


def to_be_decorated() -> None: ...


def recurring() -> Any:
    return Task._base_manager.filter(biz_code=give.module_path)


class TestTrigger:
    """A function with a trigger of one enqueuing recurs with its arguments."""

    def test_runs_again_and_again(self) -> None:
        result = give.using(biz_num="shop-12", trigger="Interval(minutes=30)").enqueue({"shop": 12})
        row = recurring().get()
        assert timedelta(minutes=29) < row.when - timezone.now() <= timedelta(minutes=30)
        assert result.task.trigger == Interval(minutes=30)
        assert backend.get_result(result.id) == result
        for _ in range(2):
            now = timezone.now()
            recurring().update(claim_at=now, when=now)
            drain()
        assert functions.calls == [{"shop": 12}] * 2
        row = recurring().get()
        assert (row.status, row.trigger, row.biz_ext["args"]) == (0, Interval(minutes=30), [{"shop": 12}])
        result.refresh()
        assert result.status == TaskResultStatus.READY

    def test_is_at_the_given_time_first(self) -> None:
        give.using(trigger=Cron("0 3 * * *"), run_after=timedelta(seconds=0)).enqueue("now")
        drain()
        assert functions.calls == ["now"]
        assert recurring().get().when > timezone.now()

    def test_many_in_one_statement(self) -> None:
        give.using(trigger=Interval(days=1)).bulk_enqueue([(("a",), {}), (("b",), {})])
        assert {row.when > timezone.now() for row in recurring()} == {True}
        assert recurring().count() == 2

    @pytest.mark.parametrize(
        ("trigger", "problem"),
        [
            ("every day", "expected for example Cron"),
            (12, "expected for example Cron"),
            ("Once('2001-01-01T00:00+00:00')", "no time after now"),
        ],
    )
    def test_that_is_not_valid_writes_nothing(self, trigger: Any, problem: str) -> None:
        with pytest.raises(InvalidTrigger, match=problem):
            give.using(trigger=trigger).enqueue("never")
        assert not recurring().exists()

    def test_of_the_decorator_is_refused(self) -> None:
        with pytest.raises(InvalidTask, match="a trigger is given with @periodic, or with using"):
            # Django before 6.1 has no defaults for these.
            common = {"priority": 0, "backend": "default", "queue_name": "default", "run_after": None}
            type(give)(func=to_be_decorated, trigger=Interval(days=1), **common)
