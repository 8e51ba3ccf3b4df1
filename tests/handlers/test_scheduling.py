"""``schedule``: add_task with the handler's code."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.utils.connection import ConnectionDoesNotExist

from django_delayed_tasks.exceptions import InvalidHandler, InvalidTask, TaskExists
from django_delayed_tasks.handlers import TaskHandler, register_task_handler, task_handler
from django_delayed_tasks.handlers.scheduling import ScheduleOptions
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import AddAction, CancelResult, RunOutcome
from django_delayed_tasks.triggers import Cron, Interval

WHEN = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
HOUR = timedelta(hours=1)
ROOT = Path(__file__).resolve().parents[2]


class Promotion(TaskHandler):
    biz_code = "promotion"
    queue = "shop"
    priority = 3

    def handle(self, task: Any) -> None: ...


class Demanding(TaskHandler):
    def __init__(self, biz_code: str) -> None:
        self.biz_code = biz_code

    def handle(self, task: Any) -> None: ...


class ByMethod(Promotion):
    def get_biz_code(self) -> str:
        return "by-method"


def written(**identity: str) -> tuple[Any, ...]:
    """The one task there is, as (code, number, when, data, queue, priority)."""
    task = Task.objects.get(**identity)
    return task.biz_code, task.biz_num, task.when, task.biz_ext, task.queue, task.priority


@pytest.mark.django_db
def test_the_class_schedules_a_task_of_its_code() -> None:
    register_task_handler(Promotion)
    task_id, action = Promotion.schedule("p-1", WHEN, {"percent": 20})
    assert (task_id, action) == (Task.objects.get().pk, AddAction.CREATED)
    assert written() == ("promotion", "p-1", WHEN, {"percent": 20}, "shop", 3)


@pytest.mark.django_db
def test_queue_and_priority_go_to_the_task() -> None:
    register_task_handler(Promotion)
    Promotion.schedule("p-1", WHEN, queue="night", priority=0)
    assert written() == ("promotion", "p-1", WHEN, None, "night", 0)


@pytest.mark.django_db
def test_if_exists_goes_to_add_task() -> None:
    register_task_handler(Promotion)
    Promotion.schedule("p-1", WHEN)
    assert Promotion.schedule("p-1", timedelta(hours=1), if_exists="keep").action == AddAction.KEPT
    assert written()[2] == WHEN
    with pytest.raises(TaskExists):
        Promotion.schedule("p-1", if_exists="raise")


@pytest.mark.django_db
def test_without_when_it_is_due_at_once() -> None:
    register_task_handler(Promotion)
    Promotion.schedule("p-1")
    task = Task.objects.get()
    assert abs(task.claim_at - task.create_time) < timedelta(seconds=1)


@pytest.mark.django_db
def test_a_decorated_function_schedules() -> None:
    @task_handler("greet", queue="mail")
    def greet(task: Any) -> None: ...

    greet.schedule("g-1", WHEN, [1, 2])
    assert written() == ("greet", "g-1", WHEN, [1, 2], "mail", 0)


@pytest.mark.django_db
@pytest.mark.parametrize("num", [12, UUID(int=12)])
def test_an_int_and_a_uuid_are_numbers(num: int | UUID) -> None:
    @task_handler("greet")
    def greet(task: Any) -> None: ...

    register_task_handler(Promotion)
    Promotion.schedule(num, WHEN)
    greet.schedule(num, WHEN)
    assert list(Task.objects.values_list("biz_num", flat=True)) == [str(num)] * 2


@pytest.mark.django_db
def test_get_biz_code_names_the_code() -> None:
    register_task_handler(ByMethod)
    ByMethod.schedule("b-1", WHEN)
    assert written()[0] == "by-method"


def test_a_class_without_a_code_of_its_own_is_refused() -> None:
    register_task_handler(Demanding("one"))
    with pytest.raises(InvalidHandler, match=r"Demanding has no biz_code of its own: use add_task"):
        Demanding.schedule("d-1")


@pytest.mark.django_db
def test_an_unknown_option_is_an_error() -> None:
    register_task_handler(Promotion)
    with pytest.raises(TypeError, match=r"^schedule\(\) got an unexpected keyword argument 'if_exist'"):
        Promotion.schedule("p-1", if_exist="keep")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'data'.*: the arguments are biz_num, when, biz_ext \(the data\), queue"):
        Promotion.schedule("p-1", WHEN, data={"percent": 20})  # type: ignore[call-arg]


@pytest.mark.django_db
def test_it_takes_every_field_that_callers_give_a_task() -> None:
    register_task_handler(Promotion)
    Promotion.schedule("p-1", WHEN, trigger="Interval(hours=1)", expires_at=WHEN + HOUR)
    task = Task.objects.get()
    assert (task.when, task.trigger, task.expires_at) == (WHEN, Interval(hours=1), WHEN + HOUR)
    Promotion.schedule("p-2", trigger=Cron("@daily"))
    given = {field.name for field in Task._meta.fields if field.editable} - {"id", "biz_code", "biz_num", "when"}
    assert given - {"biz_ext"} == set(ScheduleOptions.__annotations__) - {"if_exists", "once", "using"}


@pytest.mark.django_db
def test_a_task_is_found_and_changed_by_its_number() -> None:
    register_task_handler(Promotion)
    other = register_task_handler(ByMethod)
    for handler in (Promotion, other):
        handler.schedule("p-1", WHEN)
        handler.schedule("p-11", WHEN)
    assert Promotion.reschedule("p-1", WHEN + HOUR)
    found = Promotion.get("p-1")
    assert found
    assert (found.biz_code, found.biz_num, found.when) == ("promotion", "p-1", WHEN + HOUR)
    assert Promotion.cancel("p-1") is CancelResult.CANCELLED
    assert Promotion.get("p-1") is None
    assert Promotion.cancel("p-1") is CancelResult.MISSING
    assert not Promotion.reschedule("p-1", None)
    assert [(run.biz_code, run.biz_num) for run in Promotion.runs("p-1")] == [("promotion", "p-1")]
    assert [*other.runs("p-1"), *Promotion.runs("p-11"), *Promotion.runs("p")] == []
    assert Task.objects.filter(when=WHEN).count() == 3


@pytest.mark.django_db
def test_its_runs_are_the_newest_first() -> None:
    register_task_handler(Promotion)
    for _ in range(2):
        Promotion.schedule(12)
        Promotion.cancel(12)
    runs = [run.pk for run in Promotion.runs(12)]
    assert runs == sorted(runs, reverse=True)
    assert len(runs) == 2


@pytest.mark.django_db
def test_a_decorated_function_finds_and_changes() -> None:
    @task_handler("greet")
    def greet(task: Any) -> None: ...

    greet.schedule(12, WHEN)
    assert greet.reschedule(12, WHEN + HOUR)
    task = greet.get(12)
    assert task
    assert task.when == WHEN + HOUR
    assert greet.cancel(12) is CancelResult.CANCELLED
    assert greet.runs(12).get().outcome == RunOutcome.CANCELLED


@pytest.mark.django_db
@pytest.mark.parametrize("call", ["cancel", "get", "runs"])
def test_what_is_no_number_is_refused(call: str) -> None:
    register_task_handler(Promotion)
    with pytest.raises(InvalidTask, match=r"^biz_num=''"):
        getattr(Promotion, call)("")


@pytest.mark.django_db
def test_another_database_is_asked() -> None:
    register_task_handler(Promotion)
    calls: list[Callable[[], object]] = [
        lambda: Promotion.cancel("1", using="elsewhere"),
        lambda: Promotion.reschedule("1", None, using="elsewhere"),
        lambda: Promotion.get("1", using="elsewhere"),
        lambda: list(Promotion.runs("1", using="elsewhere")),
    ]
    for call in calls:
        with pytest.raises(ConnectionDoesNotExist):
            call()


WITHOUT_SETUP = """
from django_delayed_tasks import TaskException, TaskHandler
class Promotion(TaskHandler):
    biz_code = "promotion"
    def handle(self, task): ...
try:
    Promotion.schedule("p-1")
except TaskException as error:
    print(error)
"""


def test_before_django_is_set_up_the_error_says_so() -> None:
    command = [sys.executable, "-c", WITHOUT_SETUP]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ("django.setup()" in done.stdout, done.stderr) == (True, "")
