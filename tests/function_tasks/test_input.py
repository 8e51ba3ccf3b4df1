"""Arguments that a database could not store, or would not return unchanged, are refused before anything is written."""

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_delayed_tasks.exceptions import InvalidTask as InvalidArguments
from django_delayed_tasks.models import Task, TaskRun
from tests.executor.parts import drain
from tests.function_tasks import functions
from tests.function_tasks.framework import InvalidTask, default_task_backend

pytestmark = pytest.mark.django_db(transaction=True)
give: Any = functions.give


def nested(depth: int) -> list[Any]:
    """Return a list in a list in a list."""
    deep: list[Any] = []
    for _ in range(depth):
        deep = [deep]
    return deep


@pytest.fixture
def doing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets what the functions return."""
    return lambda to_do: monkeypatch.setattr(functions, "to_do", to_do)


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


@pytest.mark.parametrize("value", [60, "2031-01-01", 0.5, date(2031, 1, 1)])
def test_a_time_that_is_none(value: Any) -> None:
    with pytest.raises(InvalidTask, match=r"run_after=.*: must be an aware datetime or a timedelta$"):
        give.using(run_after=value)


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


REFUSED: list[tuple[Any, str]] = [
    (math.nan, "is not JSON"),
    ([-math.inf], "is not JSON"),
    ("a\0b", "contains a NUL character"),
    ({"a\0b": 1}, "contains a NUL character"),
    ("\ud800", "contains a lone surrogate"),
    (2**64, "contains an integer beyond 64 bits"),
    ([-(2**63) - 1], "contains an integer beyond 64 bits"),
    ({1: "x"}, "has a key that is not a str, 1, which JSON would turn into one"),
    ([{"a": ({None: 1},)}], "has a key that is not a str, None"),
    ({True: 1, "true": 2}, "has a key that is not a str, True"),
    (nested(40), "is nested deeper than 31 levels"),
    (nested(3000), "is not JSON: nested too deeply"),
    ("x" * 70_000, "bytes of JSON; 65536 at most"),
]


@pytest.mark.parametrize(("value", "problem"), REFUSED)
def test_what_is_refused_as_an_argument_is_refused_as_a_return_value(value: Any, problem: str, doing: Any) -> None:
    with pytest.raises(InvalidArguments, match=problem):
        give.enqueue(value)
    assert errors_of_returning(value, doing) == [(InvalidArguments, True)] * 2
    assert set(TaskRun.objects.filter(error__contains=problem).values_list("biz_code", flat=True)) == {
        functions.return_it.module_path, functions.act.module_path,
    }  # fmt: skip


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), {1}, object(), [{1}], range, {(1, 2): 3}, iter([1])])  # noqa: DTZ001
def test_what_is_no_argument_is_no_return_value(value: Any, doing: Any) -> None:
    with pytest.raises(TypeError):
        give.enqueue(value)
    assert errors_of_returning(value, doing) == [(TypeError, True)] * 2


@pytest.mark.parametrize("value", [b"x", (1, (2, b"y")), {b"k": (1,)}, range(3), 2**64 - 1, -(2**63), True, 1e300, ""])
def test_a_return_value_becomes_what_an_argument_becomes(value: Any, doing: Any) -> None:
    [argument] = give.enqueue(value).args
    doing(lambda: value)
    for function in (functions.return_it, functions.act):
        result: Any = function.enqueue()
        drain()
        result.refresh()
        assert (result.return_value, type(result.return_value)) == (argument, type(argument))


def errors_of_returning(value: Any, doing: Any) -> list[tuple[type[BaseException], bool]]:
    """For a plain and an atomic function that return the value: the class of the last error, and that it failed."""
    doing(lambda: value)
    results: list[Any] = [functions.return_it.enqueue(), functions.act.enqueue()]
    drain()
    for result in results:
        result.refresh()
    return [(result.errors[-1].exception_class, str(result.status) == "FAILED") for result in results]


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
