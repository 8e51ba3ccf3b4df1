"""Arguments that a database could not store, or would not return unchanged, are refused before anything is written."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_delayed_tasks.exceptions import InvalidTask as InvalidArguments
from django_delayed_tasks.models import Task
from tests.executor.parts import drain
from tests.function_tasks import functions
from tests.function_tasks.framework import InvalidTask, default_task_backend

pytestmark = pytest.mark.django_db(transaction=True)
give: Any = functions.give


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (math.nan, "is not JSON"),
        (math.inf, "is not JSON"),
        ("a\0b", "contains a NUL character"),
        ("\ud800", "contains a lone surrogate"),
        ({1: "x"}, "has a key that is not a str, 1, which JSON would turn into one"),
        ({"a": [{None: 1}]}, "has a key that is not a str, None"),
        (2**64, "contains an integer beyond 64 bits"),
        ("x" * 70_000, "bytes of JSON; 65536 at most"),
    ],
)
def test_refused_arguments(value: Any, problem: str) -> None:
    for args, kwargs in (([value], {}), ([], {"value": value})):
        with pytest.raises(InvalidArguments, match=problem) as caught:
            give.enqueue(*args, **kwargs)
        assert caught.value.field == "arguments"
    assert not Task.objects.exists()


@override_settings(DELAYED_TASKS={"REDACT": ["value"]})
@pytest.mark.parametrize("value", [{1: "s3cret"}, ["s3cret", math.nan], "s3cret\0"])
def test_errors_do_not_show_what_is_hidden(value: Any) -> None:
    for args, kwargs in (([value], {}), ([], {"value": value})):
        with pytest.raises(InvalidArguments) as caught:
            give.enqueue(*args, **kwargs)
        assert "s3cret" not in str(caught.value)


def test_arguments_that_are_nested_too_deeply() -> None:
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    endless: list[Any] = []
    endless.append(endless)
    for value in (deep, endless):
        with pytest.raises(InvalidArguments, match="is not JSON: nested too deeply"):
            give.enqueue(value)


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), {1}, object()])  # noqa: DTZ001
def test_other_types_are_refused_as_the_framework_does(value: Any) -> None:
    with pytest.raises(TypeError, match="Unsupported type"):
        give.enqueue(value)
    assert not Task.objects.exists()


def test_what_the_framework_turns_into_json() -> None:
    result = give.enqueue((b"x", (1, 2)))
    assert result.args == [["x", [1, 2]]]
    assert give.get_result(result.id) == result


@pytest.mark.parametrize("value", [math.nan, "a\0b", "\ud800", 2**64])
def test_return_values_are_refused_too(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "to_return", value)
    result: Any = functions.return_it.enqueue()
    drain()
    result.refresh()
    assert [error.exception_class for error in result.errors] == [InvalidArguments]


@pytest.mark.parametrize(
    "chosen",
    [
        {"run_after": timedelta(days=40_000)},
        {"expires": timedelta(days=40_000)},
        {"run_after": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)},
        {"expires": datetime(1000, 1, 1, tzinfo=UTC)},
        {"biz_num": ""},
        {"biz_num": "x" * 256},
        {"biz_num": 1.5},
    ],
)
def test_refused_choices(chosen: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(chosen))):
        give.using(**chosen).enqueue(1)
    assert not Task.objects.exists()


def test_a_queue_of_a_name_that_is_too_long() -> None:
    for backend in ("default", "strict"):  # the latter has a list of queues
        with pytest.raises(InvalidTask, match=r"^queue_name='q+': is 60 characters long; 50 at most$"):
            give.using(backend=backend, queue_name="q" * 60).enqueue(1)


def test_a_queue_that_the_backend_does_not_have() -> None:
    with pytest.raises(InvalidTask, match="Queue 'slow' is not valid for backend"):
        give.using(backend="strict", queue_name="slow")
    assert default_task_backend.alias == "default"
