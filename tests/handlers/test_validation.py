"""Which handlers are accepted, and what is said about the others."""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from functools import wraps
from typing import Any

import pytest

from django_delayed_tasks.exceptions import InvalidHandler
from django_delayed_tasks.handlers import (
    TaskHandler,
    find,
    get_task_handlers,
    register_task_handler,
    task_handler,
)
from django_delayed_tasks.states import KeepHistory
from django_delayed_tasks.triggers import Cron


class Promotion(TaskHandler):
    biz_code = "promotion"

    def handle(self, task: Any) -> None: ...


def variant(**attributes: Any) -> type[TaskHandler]:
    return type("Variant", (Promotion,), attributes)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("biz_code", ""),
        ("biz_code", "c" * 51),
        ("biz_code", None),
        ("biz_code", 7),
        ("biz_code", ["promotion"]),
        ("biz_code", " promotion"),
        ("biz_code", "promo\0tion"),
        ("biz_code", "promo\ud800tion"),
        ("queue", ""),
        ("queue", "q" * 51),
        ("queue", None),
        ("queue", "mail "),
        ("priority", -101),
        ("priority", 101),
        ("priority", 1.0),
        ("priority", True),
        ("priority", "1"),
        ("max_attempts", 0),
        ("max_attempts", -1),
        ("max_attempts", 2.5),
        ("max_attempts", True),
        ("max_attempts", None),
        ("timeout", 0),
        ("timeout", -1.5),
        ("timeout", timedelta(0)),
        ("timeout", timedelta(days=367)),
        ("timeout", float("nan")),
        ("timeout", float("inf")),
        ("timeout", "30"),
        ("timeout", True),
        ("keep_history", "some"),
        ("keep_history", None),
        ("keep_history", ["all"]),
        ("keep_history", 7),
        ("keep_history", timedelta()),
        ("keep_history", timedelta(days=-1)),
        ("keep_history", timedelta(days=36_601)),
        ("atomic", 1),
        ("atomic", None),
        ("batch_size", 0),
        ("batch_size", 10_001),
        ("batch_size", True),
        ("batch_size", None),
        ("batch_size", "500"),
        ("handle_batch", 7),
        ("backoff", timedelta(seconds=5)),
        ("on_failed", None),
        ("handle", "promotion"),
    ],
)
def test_a_wrong_attribute_is_named_with_the_handler_and_the_value(attribute: str, value: Any) -> None:
    with pytest.raises(InvalidHandler) as raised:
        register_task_handler(variant(**{attribute: value}))
    message = str(raised.value)
    assert f"{__name__}.Variant: {attribute}=" in message
    is_too_long = isinstance(value, str) and len(value) > 50
    assert ("50 at most" if is_too_long else "expected") in message
    assert get_task_handlers() == {}


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("biz_code", "c" * 50),
        ("biz_code", "Rückgabe prüfen"),
        ("queue", "q" * 50),
        ("priority", -100),
        ("priority", 100),
        ("max_attempts", 1),
        ("timeout", None),
        ("timeout", 0.001),
        ("timeout", 30),
        ("timeout", timedelta(days=366)),
        ("keep_history", "all"),
        ("keep_history", "failures"),
        ("keep_history", "none"),
        ("keep_history", KeepHistory.FAILURES),
        ("keep_history", timedelta(microseconds=1)),
        ("keep_history", timedelta(days=36_600)),
        ("atomic", True),
    ],
)
def test_a_right_attribute_is_accepted(attribute: str, value: Any) -> None:
    handler = register_task_handler(variant(**{attribute: value}))
    assert getattr(handler, attribute) == value
    assert find(handler.get_biz_code()) is handler


async def in_a_coroutine(self: TaskHandler, task: Any) -> None: ...


async def in_an_async_generator(self: TaskHandler, task: Any) -> AsyncIterator[int]:
    yield 1


def in_a_generator(self: TaskHandler, task: Any) -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("method", "function"),
    [("handle", in_an_async_generator), ("handle", in_a_generator), ("handle_batch", in_a_generator)],
)
def test_a_method_that_would_only_make_an_object_is_refused(method: str, function: Any) -> None:
    with pytest.raises(
        InvalidHandler, match=rf"Variant: {method}\(\): expected a method that returns, not a generator"
    ):
        register_task_handler(variant(**{method: function}))


@pytest.mark.parametrize(
    ("method", "value", "arguments"),
    [
        ("backoff", timedelta(seconds=5), "attempt"),
        ("concurrency_key", "biz_num", "task"),
        ("on_failed", 1, "task, error"),
    ],
)
def test_what_is_no_method_is_refused_with_the_arguments_of_one(method: str, value: Any, arguments: str) -> None:
    expected = f"{method}=.*: expected a method, or under @task_handler a function, that takes \\({arguments}\\)"
    with pytest.raises(InvalidHandler, match=expected):
        register_task_handler(variant(**{method: value}))


@pytest.mark.parametrize("method", ["backoff", "on_failed", "concurrency_key"])
def test_only_the_work_itself_may_be_async(method: str) -> None:
    with pytest.raises(InvalidHandler, match=rf"Variant: {method}\(\): expected a plain method, not an async one"):
        register_task_handler(variant(**{method: in_a_coroutine}))


@pytest.mark.parametrize("method", ["handle", "handle_batch"])
def test_an_async_handler_cannot_be_atomic(method: str) -> None:
    members: dict[str, Any] = {"handle": TaskHandler.handle, method: in_a_coroutine}
    assert register_task_handler(variant(**members)).is_async
    with pytest.raises(InvalidHandler, match="atomic=True: its runs are async, and a transaction of Django belongs to"):
        register_task_handler(variant(atomic=True, **members))


@pytest.mark.parametrize(
    ("method", "value", "called", "right"),
    [
        ("handle", lambda self: None, "(task)", "def handle(self, task)"),
        ("handle", lambda self, task, *, shop: None, "(task)", "def handle(self, task)"),
        ("handle", staticmethod(lambda: None), "(task)", "def handle(task)"),
        ("backoff", lambda self: timedelta(), "(attempt)", "def backoff(self, attempt)"),
        ("on_failed", lambda self, task: None, "(task, error)", "def on_failed(self, task, error)"),
        ("concurrency_key", lambda self: "customer", "(task)", "def concurrency_key(self, task)"),
    ],
)
def test_a_method_that_could_not_be_called(method: str, value: Any, called: str, right: str) -> None:
    with pytest.raises(InvalidHandler) as raised:
        register_task_handler(variant(**{method: value}))
    problem = f"cannot be called with {called}; define it as `{right}`"
    assert str(raised.value) == f"{__name__}.Variant: {method}(): {problem}"


def test_a_decorated_function_that_could_not_be_called() -> None:
    def cancel_order() -> None: ...

    with pytest.raises(InvalidHandler, match=r"cancel_order: .*; define it as `def cancel_order\(task\)`$"):
        task_handler("cancel-order")(cancel_order)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "handle",
    [lambda self, anything: None, lambda *given: None, lambda self, task, shop=None: None, staticmethod(print), dict],
)
def test_a_method_that_can_be_called(handle: Any) -> None:
    register_task_handler(variant(handle=handle))


def with_shop(function: Callable[..., None]) -> Callable[..., None]:
    @wraps(function)
    def with_it(self: TaskHandler, task: Any) -> None:
        function(self, task, shop="the one")

    return with_it


def without_task(function: Callable[..., None]) -> Callable[..., None]:
    @wraps(function)
    def without_it(self: TaskHandler) -> None:
        function(self, None)

    return without_it


def test_it_is_the_decorated_one_that_is_called() -> None:
    register_task_handler(variant(handle=with_shop(lambda self, task, shop: None)))
    with pytest.raises(InvalidHandler, match=r"cannot be called with \(task\)"):
        register_task_handler(variant(biz_code="other", handle=without_task(lambda self, task: None)))


@pytest.mark.parametrize("attributes", [{"pool": "proxies"}, {"max_concurrent": 3}, {"rate": "5/s"}])
def test_limits_are_for_one_task_at_a_time(attributes: dict[str, Any]) -> None:
    together = {"biz_code": "batched", "handle_batch": lambda self, tasks: None}
    register_task_handler(type("Batched", (TaskHandler,), together))
    with pytest.raises(InvalidHandler, match=r"Limited: handle_batch cannot be combined with"):
        register_task_handler(type("Limited", (TaskHandler,), together | {"biz_code": "limited"} | attributes))


def test_there_is_one_way_to_run_a_task() -> None:
    with pytest.raises(InvalidHandler, match=r"Variant: it has handle_batch, so that its handle"):
        register_task_handler(variant(handle_batch=lambda self, tasks: None))


def test_handle_is_required() -> None:
    with pytest.raises(InvalidHandler, match=r"Idle: handle is missing"):
        register_task_handler(type("Idle", (TaskHandler,), {"biz_code": "idle"}))


def test_a_code_of_the_instance_that_the_class_contradicts_is_refused() -> None:
    """``schedule`` is a class method: it would add a task of the class's code."""
    handler = Promotion()
    handler.biz_code = "other"
    with pytest.raises(InvalidHandler, match=r"biz_code='other': the class has 'promotion'"):
        register_task_handler(handler)


@pytest.mark.parametrize("trigger", ["0 3 * * *", "Interval(minutes=0)", "", Cron, 5, timedelta(minutes=5)])
def test_what_is_no_trigger_is_refused(trigger: Any) -> None:
    with pytest.raises(InvalidHandler, match="trigger="):
        register_task_handler(variant(trigger=trigger))


def test_the_message_about_a_wrong_trigger_shows_what_is_right() -> None:
    with pytest.raises(InvalidHandler, match=r"Variant: trigger='0 3 \* \* \*': expected for example Cron\('0 3 "):
        register_task_handler(variant(trigger="0 3 * * *"))
