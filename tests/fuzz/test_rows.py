"""An executor, the admin and the API over rows as this release never writes them: healthy tasks still run."""

from collections.abc import Mapping
from threading import Lock
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from django_delayed_tasks import api
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.models import Executor, Task, TaskRun
from tests.executor.parts import executing, handler_of
from tests.fuzz.rows import BIG, CODE, EARLY, LATE, ROWS, SMALL, WHOLE, write
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
HEALTHY = "healthy"


class Ran:
    """The numbers of the healthy tasks that ran."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.numbers: set[str] = set()

    def __call__(self, task: Any) -> None:
        with self._lock:
            if task.biz_code == HEALTHY:
                self.numbers.add(task.biz_num)
        str(task), repr(task), task.biz_ext


def add_healthy(first: int) -> set[str]:
    """Ten tasks that are due now, on two levels; their numbers."""
    numbers = [str(number) for number in range(first, first + 10)]
    for number in numbers:
        api.add_task(Task(biz_code=HEALTHY, biz_num=number, priority=int(number) % 2))
    return set(numbers)


def runs_beside(rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Healthy tasks that were added before, after and during run, while these rows are there."""
    ran = Ran()
    registry.clear()
    handler_of(ran, CODE)
    handler_of(ran, HEALTHY)
    expected = add_healthy(0)
    for num, row in rows.items():
        write(num, row)
    expected |= add_healthy(10)
    with executing(poll_interval=0.02, max_rescues=3) as executor:
        wait_until(lambda: expected <= ran.numbers, 60)
        expected |= add_healthy(20)
        wait_until(lambda: expected <= ran.numbers, 60)
        wait_until(lambda: not Task.objects.filter(biz_code=HEALTHY).exists(), 60)
        assert not executor.worn_out.is_set()


def pages_work() -> None:
    """Check that no page of the admin fails on the present rows, nor does a query of the API."""
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    for model in ("task", "taskrun", "executor"):
        assert client.get(f"/admin/django_delayed_tasks/{model}/", follow=True).status_code == 200
        for key in keys_of(model)[:20]:
            assert client.get(f"/admin/django_delayed_tasks/{model}/{key}/change/").status_code == 200, (model, key)
    list(api.get_tasks_by_code())
    list(api.get_runs())


def act_on_everything() -> None:
    """The actions of the admin on all tasks: those that they cannot be applied to are left."""
    client = Client()
    client.force_login(User.objects.get())
    tasks = "/admin/django_delayed_tasks/task/"
    for action in ("run_now", "postpone", "retry_failed", "cancel"):
        form = {"action": action, "_selected_action": keys_of("task")[:1], "select_across": "1"}
        assert client.post(tasks, form, follow=True).status_code == 200, action


def keys_of(model: str) -> list[int]:
    """The primary keys of the rows that such a page exists for."""
    rows: Any = {"task": Task, "taskrun": TaskRun, "executor": Executor}[model]
    return list(rows.objects.order_by("-pk").values_list("pk", flat=True))


def clean() -> None:
    """Between examples: as at the beginning."""
    with connection.cursor() as cursor:
        for model in (Task, TaskRun, Executor):
            cursor.execute(f"DELETE FROM {model._meta.db_table}")
    User.objects.all().delete()


POISON: dict[str, Mapping[str, Any]] = {
    "highest version": {"version": BIG - 1},
    "last version": {"version": BIG - 2},
    "lowest version": {"version": -BIG},
    "most attempts": {"attempts": WHOLE - 1},
    "fewest attempts": {"attempts": -WHOLE},
    "running without an executor": {"status": 1},
    "running for an unknown executor": {"status": 1, "executor": 10**15},
    "fewest attempts of a dead executor": {"status": 1, "executor": 10**15, "attempts": -WHOLE},
    "most rescues": {"status": 1, "rescues": WHOLE - 1},
    "highest version of a dead executor": {"status": 1, "version": BIG - 1},
    "half of a deferred schedule": {"status": 1, "deferred_when": LATE},
    "half of a deferred schedule, pending": {"deferred_when": "2000-01-01 00:00:00"},
    "deferred data without a time": {"status": 1, "deferred_biz_ext": "[1]", "deferred_priority": 5},
    "cancelled, pending": {"cancel_requested_at": EARLY},
    "unknown status": {"status": 7},
    "negative status": {"status": -1},
    "highest priority": {"priority": SMALL - 1},
    "lowest priority": {"priority": -SMALL},
    "no code": {"biz_code": ""},
    "no queue": {"queue": ""},
    "first moment": {"when_time": EARLY, "claim_at": EARLY},
    "last moment": {"when_time": LATE, "claim_at": EARLY},
    "never": {"when_time": LATE, "claim_at": LATE},
    "huge number": {"biz_ext": "1" * 5000},
    "deep data": {"biz_ext": "[" * 3000 + "]" * 3000},
}


ALONE = [
    "highest version",
    "most attempts",
    "half of a deferred schedule",
    "first moment",
    "fewest attempts of a dead executor",
]
"""Each of these once kept an executor from starting, or from claiming anything."""


@pytest.mark.parametrize("name", ALONE)
def test_one(name: str) -> None:
    runs_beside({name: POISON[name]})


def test_all_together() -> None:
    runs_beside(POISON)
    pages_work()
    act_on_everything()


@given(st.lists(ROWS, min_size=10, max_size=20))
@settings(
    derandomize=True,
    max_examples=3,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_many_together(rows: list[dict[str, Any]]) -> None:
    runs_beside({f"odd {i}": row for i, row in enumerate(rows)})
    pages_work()
    clean()
