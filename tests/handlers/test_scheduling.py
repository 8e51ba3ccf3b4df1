"""``schedule``: add_task with the handler's code."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from django_delayed_tasks.exceptions import InvalidHandler, TaskExists
from django_delayed_tasks.handlers import TaskHandler, register_task_handler, task_handler
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import AddAction

WHEN = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
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
    with pytest.raises(TypeError, match="if_exist"):
        Promotion.schedule("p-1", if_exist="keep")  # type: ignore[call-arg]


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
