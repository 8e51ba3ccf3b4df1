"""What every call answers."""

from datetime import timedelta

import pytest

from django_delayed_tasks import api, clock
from django_delayed_tasks.exceptions import TaskException, TaskExists
from django_delayed_tasks.models import Task
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import AddAction, CancelResult, RunOutcome
from tests.store import verbs
from tests.store.verbs import CODE, HOUR, NOW

pytestmark = pytest.mark.per_database


def test_add_task_names_the_row(db: None) -> None:
    first = verbs.add()
    other = verbs.add("2")
    assert first == AddResult(verbs.present("1").id, AddAction.CREATED)
    assert other == AddResult(verbs.present("2").id, AddAction.CREATED)
    assert verbs.add() == AddResult(first.task_id, AddAction.REPLACED)
    assert verbs.add(if_exists="keep") == AddResult(first.task_id, AddAction.KEPT)
    verbs.settle(*(verbs.failed(run) for run in verbs.claim() if run.biz_num == "1"))
    assert verbs.add("2") == AddResult(other.task_id, AddAction.DEFERRED)
    assert verbs.add("2", if_exists="keep") == AddResult(other.task_id, AddAction.KEPT)
    assert verbs.add() == AddResult(first.task_id, AddAction.REPLACED)


def test_add_task_raises_for_what_exists(db: None) -> None:
    verbs.add()
    with pytest.raises(TaskExists, match=r"a task \('test', '1'\) exists already") as caught:
        verbs.add(if_exists="raise")
    assert (caught.value.biz_code, caught.value.biz_num) == (CODE, "1")
    assert isinstance(caught.value, TaskException)


def test_add_task_leaves_the_given_object_alone(db: None) -> None:
    task = verbs.task(when=HOUR)
    api.add_task(task)
    left: tuple[object, ...] = (task.pk, task.when, task.queue, task.priority)
    assert left == (None, HOUR, "", None)


def test_a_row_can_be_added_again(db: None, frozen: None) -> None:
    """A task that was read can be given to add_task."""
    verbs.add(when=HOUR, biz_ext="old", queue="mail", priority=7)
    task = api.get_tasks_by_code(CODE).get()
    task.biz_ext = "new"
    assert api.add_task(task).action == "replaced"
    row = verbs.present()
    assert (row.biz_ext, row.when, row.queue, row.priority, row.version) == ("new", NOW + HOUR, "mail", 7, 1)


def test_everything_of_a_schedule_is_replaced(db: None, frozen: None) -> None:
    verbs.add(when=HOUR, biz_ext="old", queue="mail", priority=7)
    with clock.frozen_at(NOW + HOUR):
        verbs.add(when=2 * HOUR)
    row = verbs.present()
    assert (row.biz_ext, row.when, row.claim_at, row.queue, row.priority) == (
        None, NOW + 3 * HOUR, NOW + 3 * HOUR, "default", 0,
    )  # fmt: skip
    assert (row.create_time, row.update_time) == (NOW, NOW + HOUR)


def test_a_deferred_schedule_has_its_own_queue_and_priority(db: None, frozen: None) -> None:
    verbs.add(queue="mail", priority=7)
    [run] = verbs.claim(queue="mail", priority=7)
    verbs.add(when=HOUR, queue="zip", priority=-7)
    assert (verbs.present().queue, verbs.present().priority) == ("mail", 7)
    verbs.settle(verbs.done(run))
    assert (verbs.present().queue, verbs.present().priority) == ("zip", -7)


def test_reschedule_keeps_all_but_the_time(db: None, frozen: None) -> None:
    verbs.add(when=HOUR, biz_ext="data", queue="mail", priority=7)
    assert api.reschedule_task(CODE, "1", None) is True
    row = verbs.present()
    assert (row.biz_ext, row.when, row.claim_at, row.queue, row.priority) == ("data", NOW, NOW, "mail", 7)
    [run] = verbs.claim(queue="mail", priority=7)
    assert api.reschedule_task(CODE, "1", 2 * HOUR) is True
    verbs.settle(verbs.done(run))
    row = verbs.present()
    assert (row.biz_ext, row.when, row.queue, row.priority) == ("data", NOW + 2 * HOUR, "mail", 7)


def test_reschedule_finds_none(db: None) -> None:
    verbs.add("2")
    assert api.reschedule_task(CODE, "1", None) is False
    assert api.reschedule_task("other", "2", None) is False


def test_cancel_task(db: None) -> None:
    assert api.cancel_task(CODE, "1") is CancelResult.MISSING
    verbs.add()
    assert api.cancel_task(CODE, "1") is CancelResult.CANCELLED
    verbs.add()
    verbs.claim_one()
    assert api.cancel_task(CODE, "1") is CancelResult.STOPPING


def test_cancel_task_is_false_if_there_was_nothing_to_cancel(db: None) -> None:
    assert not api.cancel_task(CODE, "1")
    verbs.add()
    assert api.cancel_task(CODE, "1")
    verbs.add()
    verbs.claim_one()
    assert api.cancel_task(CODE, "1")


def test_a_run_sees_that_it_is_to_stop(db: None) -> None:
    verbs.add()
    verbs.add("2")
    stopped, other = sorted(verbs.claim(), key=str)
    api.cancel_task(CODE, "1")
    assert (stopped.cancel_requested, other.cancel_requested) == (True, False)


def test_delete_tasks(db: None) -> None:
    """The number contains the fragment, without regard to case; a running task is asked to stop."""
    numbers = ["order-1", "order-12", "Order-1", "order-2", "it's 100%", "a_b", "axb", "back\\slash"]
    api.add_tasks(verbs.task(num, HOUR) for num in numbers)
    api.add_tasks(verbs.task(num, HOUR, biz_code="other") for num in numbers)
    verbs.add("order-13")
    verbs.claim()
    verbs.add("order-14")
    verbs.settle(*map(verbs.failed, verbs.claim()))
    found = [api.delete_tasks(CODE, fragment) for fragment in ("order-1", "%", "_", "\\", "'", "nothing")]
    assert found == [5, 1, 1, 1, 0, 0]
    left = Task.objects.filter(biz_code=CODE).values_list("biz_num", flat=True)
    assert set(left) == {"order-2", "axb", "order-13"}
    assert Task.objects.get(biz_code=CODE, biz_num="order-13").cancel_requested_at
    assert Task.objects.filter(biz_code="other").count() == len(numbers)
    assert verbs.outcomes("order-12") == [RunOutcome.CANCELLED]


def test_delete_everything_of_a_code(db: None) -> None:
    api.add_tasks([verbs.task("1"), verbs.task("2", HOUR), verbs.task("3", biz_code="other")])
    assert api.delete_tasks(CODE, "", everything=True) == 2
    assert api.delete_tasks(CODE, "", everything=True) == 0
    assert Task.objects.get().biz_num == "3"


def test_deleting_a_task_twice_added(db: None) -> None:
    """A fragment finds what was added since the last deletion, not what that deleted."""
    for _ in range(2):
        verbs.add(when=timedelta(days=1))
        assert api.delete_tasks(CODE, "1") == 1
    assert verbs.outcomes() == [RunOutcome.CANCELLED] * 2
