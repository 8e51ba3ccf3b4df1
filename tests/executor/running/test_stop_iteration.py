"""A StopIteration that passes from a thread to a coroutine: on Python 3.11, what awaits the thread would never end."""

from typing import Any

import pytest
from django.utils.decorators import async_only_middleware

from django_delayed_tasks import TaskRun
from django_delayed_tasks.states import RunOutcome
from tests.executor.parts import add, drain, handler_of

pytestmark = pytest.mark.usefixtures("live_db")


@async_only_middleware
def passing(call: Any) -> Any:
    async def acall(run: Any) -> Any:
        return await call(run)

    return acall


def use(name: str, settings: Any) -> None:
    settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True, "MIDDLEWARE": [f"{__name__}.{name}"]}


def assert_failed() -> None:
    drain()
    run = TaskRun.objects.get()
    assert run.outcome == RunOutcome.FAILED
    assert run.error.strip().endswith("RuntimeError: a call in a thread raised StopIteration")
    assert "lambda task: next(iter(()))" in run.error


def test_an_async_middleware_around_a_plain_handler(settings: Any) -> None:
    use("passing", settings)
    handler_of(lambda task: next(iter(())), max_attempts=1)
    add()
    assert_failed()
