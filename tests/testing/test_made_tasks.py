"""``make_task``: a handler is called directly, with a task that notes what it does."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from django_delayed_tasks import ClaimedTask, Cron, TaskHandler, register_task_handler, task_handler
from django_delayed_tasks.exceptions import ClaimLost, InvalidTask
from django_delayed_tasks.testing import make_task, travel
from tests.executor.parts import handler_of
from tests.function_tasks.functions import add_up

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_it_is_what_a_handler_gets_for_a_task_that_has_become_due() -> None:
    handler_of(lambda task: None, queue="slow", priority=3)
    with travel(to=NOON):
        task = make_task("code", 12)
    assert isinstance(task, ClaimedTask)
    assert (task.biz_code, task.biz_num, task.biz_ext, task.when) == ("code", "12", None, NOON)
    assert (task.queue, task.priority, task.attempts, task.rescues) == ("slow", 3, 1, 0)
    assert (task.cancel_requested, task.resource, task.trigger, task.expires_at) == (False, None, None, None)
    assert str(task) == "code 12"


def test_it_has_what_is_given() -> None:
    task = make_task(
        "any", UUID(int=7), when=NOON, biz_ext={"pages": (1, 2)}, attempts=3, queue="mail", priority=1,
        trigger=Cron("0 3 * * *"), expires_at=NOON, resource=SimpleNamespace(name="p1"), fencing_token=41,
    )  # fmt: skip
    assert (task.biz_num, task.when, task.attempts) == (str(UUID(int=7)), NOON, 3)
    assert task.biz_ext == {"pages": [1, 2]}, "as JSON gives it back"
    assert (task.queue, task.priority, task.expires_at) == ("mail", 1, NOON)
    assert (str(task.trigger), task.resource.name, task.fencing_token) == (str(Cron("0 3 * * *")), "p1", 41)


def test_a_time_from_now() -> None:
    with travel(to=NOON):
        assert make_task("code", when=timedelta(hours=-1)).when == NOON - timedelta(hours=1)


def test_handlers_and_their_functions_name_the_code() -> None:
    class Named(TaskHandler):
        biz_code = "named"

        def handle(self, task: Any) -> None: ...

    @task_handler("decorated")
    def decorated(task: Any) -> None: ...

    register_task_handler(Named)
    made = [make_task(name) for name in ("text", Named, Named(), decorated, add_up)]
    codes = ["text", "named", "named", "decorated", "tests.function_tasks.functions.add_up"]
    assert [task.biz_code for task in made] == codes


@pytest.mark.parametrize("wrong", [{"code": ""}, {"num": ""}, {"biz_ext": {1}}, {"when": "noon"}, {"trigger": "daily"}])
def test_what_add_task_refuses_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        make_task(**{"code": "code", "num": "1", **wrong})


def test_what_names_no_code_is_refused() -> None:
    with pytest.raises(TypeError, match="5 names no code"):
        make_task(5)


def test_progress_is_noted() -> None:
    task = make_task("code")
    task.progress(0.5, "half")
    task.progress(1)
    assert [tuple(report) for report in task.reports] == [(0.5, "half"), (1.0, "")]
    with pytest.raises(InvalidTask):
        task.progress(2)


def test_a_handler_sees_that_it_is_to_stop() -> None:
    task = make_task("code", cancel_requested=True)
    assert task.cancel_requested
    task.cancel_requested = False
    assert not asyncio.run(task.acancel_requested())


def test_checks_of_the_claim_are_counted() -> None:
    task = make_task("code")
    task.check_claim()
    asyncio.run(task.acheck_claim())
    assert task.claim_checks == 2


def test_a_lost_claim_is_seen() -> None:
    task = make_task("code", claim_lost=True)
    with pytest.raises(ClaimLost):
        task.check_claim()
    with pytest.raises(ClaimLost):
        task.progress(0.5)
    assert task.reports == []


def test_no_database_is_needed() -> None:
    """Without the fixture ``db`` a query is an error."""
    assert make_task("code").when <= timezone.now()
