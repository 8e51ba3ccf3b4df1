"""``@task_handler``."""

import asyncio
import inspect
from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks.exceptions import InvalidHandler
from django_delayed_tasks.handlers import TaskHandler, find, get_task_handlers, registry, task_handler
from django_delayed_tasks.handlers.decorator import ATTRIBUTES
from django_delayed_tasks.triggers import Interval


def handled(handler: TaskHandler, task: Any) -> Any:
    """Return what the handler returns."""
    return handler.handle(task)


def test_a_function_becomes_a_handler_and_stays_a_function() -> None:
    @task_handler("greet")
    def greet(task: Any) -> timedelta:
        """Greets."""
        return timedelta(minutes=task)

    assert greet(3) == timedelta(minutes=3)
    assert greet.__doc__ == "Greets."
    assert greet.handler is find("greet")
    assert isinstance(greet.handler, TaskHandler)
    assert handled(greet.handler, 2) == timedelta(minutes=2)
    assert (greet.handler.queue, greet.handler.priority, greet.handler.max_attempts) == ("default", 0, 5)


def test_attributes_are_those_of_a_handler() -> None:
    failed: list[Any] = []

    @task_handler(
        "greet",
        queue="mail",
        priority=7,
        max_attempts=2,
        timeout=timedelta(seconds=3),
        keep_history="failures",
        atomic=True,
        backoff=lambda attempt: timedelta(hours=attempt),
        on_failed=lambda task, error: failed.append((task, error)),
    )
    def greet(task: Any) -> None: ...

    handler = greet.handler
    assert (handler.queue, handler.priority, handler.max_attempts) == ("mail", 7, 2)
    assert (handler.timeout_seconds, handler.keep_history, handler.atomic) == (3.0, "failures", True)
    assert handler.backoff(4) == timedelta(hours=4)
    handler.on_failed("the task", "the error")
    assert failed == [("the task", "the error")]


def test_every_attribute_of_a_handler_can_be_given() -> None:
    known = {name for name in inspect.get_annotations(TaskHandler) if name not in ("biz_code", "batch_size")}
    assert known | {"backoff", "backoff_after", "on_failed", "concurrency_key"} == set(ATTRIBUTES)


def test_a_function_that_recurs() -> None:
    @task_handler("greet", trigger=Interval(hours=1), max_lateness=60, database="default")
    def greet(task: Any) -> None: ...

    assert (greet.handler.trigger, greet.handler.longest_lateness) == (Interval(hours=1), timedelta(minutes=1))


def test_an_unknown_attribute_is_refused_with_the_likely_one() -> None:
    with pytest.raises(InvalidHandler, match=r"task_handler\('greet'\).*'max_attemps'.*did you mean max_attempts"):

        @task_handler("greet", max_attemps=3)  # type: ignore[call-arg]
        def greet(task: Any) -> None: ...

    assert get_task_handlers() == {}


@pytest.mark.parametrize("attribute", ["handle", "biz_code_", "get_biz_code", "__init__", "x"])
def test_other_attributes_are_refused(attribute: str) -> None:
    given: dict[str, Any] = {attribute: None}
    with pytest.raises(InvalidHandler, match="unknown attribute"):
        task_handler("greet", **given)


def test_a_wrong_value_is_refused_naming_the_function() -> None:
    with pytest.raises(InvalidHandler, match=r"greet: priority=101: expected an int"):

        @task_handler("greet", priority=101)
        def greet(task: Any) -> None: ...


def test_two_functions_for_one_code_are_both_named() -> None:
    @task_handler("greet")
    def first(task: Any) -> None: ...

    with pytest.raises(InvalidHandler, match=r"biz_code='greet'.*<locals>\.first and .*<locals>\.second"):

        @task_handler("greet")
        def second(task: Any) -> None: ...

    assert find("greet") is first.handler


def test_one_function_may_serve_several_codes() -> None:
    """The attributes of the function are those of the decorator applied last."""

    @task_handler("outer")
    @task_handler("inner")
    def greet(task: Any) -> str:
        return str(task)

    assert {code: handled(handler, 1) for code, handler in get_task_handlers().items()} == {
        "inner": "1",
        "outer": "1",
    }
    assert greet.handler is find("outer")


class Promotion(TaskHandler):
    biz_code = "promotion"

    def handle(self, task: Any) -> None: ...


@pytest.mark.parametrize("value", [Promotion, Promotion(), "promotion", None])
def test_only_functions_can_be_decorated(value: Any) -> None:
    with pytest.raises(InvalidHandler, match=r"task_handler\('greet'\) decorates functions, not"):
        task_handler("greet")(value)


def test_a_coroutine_function_becomes_an_async_handler() -> None:
    @task_handler("greet")
    async def greet(task: Any) -> timedelta:
        return timedelta(minutes=task)

    assert greet.handler.is_async
    assert registry.async_codes == {"greet"}
    assert asyncio.run(handled(greet.handler, 2)) == timedelta(minutes=2)


def test_its_transaction_is_refused() -> None:
    with pytest.raises(InvalidHandler, match="greet: atomic=True: its runs are async"):

        @task_handler("greet", atomic=True)
        async def greet(task: Any) -> None: ...


def test_without_a_code_it_refuses_the_function() -> None:
    with pytest.raises(InvalidHandler, match="needs a code"):
        task_handler(lambda task: None)  # type: ignore[arg-type]
