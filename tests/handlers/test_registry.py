"""Registering, and two handlers that want the same code."""

from typing import Any

import pytest

from django_delayed_tasks.exceptions import InvalidHandler
from django_delayed_tasks.handlers import (
    TaskHandler,
    find,
    get_task_handlers,
    register_task_handler,
    registry,
)


class Promotion(TaskHandler):
    biz_code = "promotion"

    def handle(self, task: Any) -> None: ...


class Rival(Promotion):
    pass


class ByMethod(Promotion):
    def get_biz_code(self) -> str:
        return "by-method"


class Demanding(TaskHandler):
    def __init__(self, biz_code: str) -> None:
        self.biz_code = biz_code

    def handle(self, task: Any) -> None: ...


def test_a_class_is_made_into_an_instance() -> None:
    handler = register_task_handler(Promotion)
    assert type(handler) is Promotion
    assert get_task_handlers() == {"promotion": handler}
    assert find("promotion") is handler


def test_an_instance_is_taken_as_it_is() -> None:
    handler = Demanding("one")
    assert register_task_handler(handler) is handler
    assert find("one") is handler


def test_instances_of_one_class_may_serve_several_codes() -> None:
    handlers = [register_task_handler(Demanding(code)) for code in ("one", "two")]
    assert list(get_task_handlers().values()) == handlers


def test_get_biz_code_is_asked_before_the_attribute() -> None:
    register_task_handler(ByMethod)
    assert list(get_task_handlers()) == ["by-method"]


def test_an_unknown_code_is_not_found() -> None:
    register_task_handler(Promotion)
    assert find("Promotion") is None


def test_registering_the_same_again_changes_nothing() -> None:
    first = register_task_handler(Promotion)
    assert register_task_handler(Promotion) is first
    assert register_task_handler(Promotion()) is first
    assert register_task_handler(first) is first
    assert get_task_handlers() == {"promotion": first}


def test_two_classes_for_one_code_are_both_named() -> None:
    first = register_task_handler(Promotion)
    with pytest.raises(InvalidHandler) as raised:
        register_task_handler(Rival)
    assert f"biz_code='promotion': {__name__}.Promotion and {__name__}.Rival" in str(raised.value)
    assert find("promotion") is first


def test_two_different_instances_for_one_code_are_refused() -> None:
    first = register_task_handler(Demanding("one"))
    other = Demanding("one")
    other.max_attempts = 1
    with pytest.raises(InvalidHandler, match="two handlers have the same code"):
        register_task_handler(other)
    assert find("one") is first


def test_a_class_that_needs_arguments_is_explained() -> None:
    with pytest.raises(InvalidHandler) as raised:
        register_task_handler(Demanding)
    message = str(raised.value)
    assert f"{__name__}.Demanding cannot be instantiated without arguments" in message
    assert "'biz_code'" in message
    assert "register an instance" in message


@pytest.mark.parametrize("value", [None, "promotion", dict, object(), lambda task: None])
def test_something_else_is_refused(value: Any) -> None:
    with pytest.raises(InvalidHandler, match="neither a TaskHandler nor a subclass"):
        register_task_handler(value)


def test_what_get_task_handlers_returns_is_a_copy() -> None:
    register_task_handler(Promotion)
    get_task_handlers().clear()
    assert find("promotion") is not None


def test_preserved_undoes_what_happens_inside() -> None:
    outer = register_task_handler(Promotion)
    with registry.preserved():
        registry.clear()
        register_task_handler(Demanding("inner"))
        assert list(get_task_handlers()) == ["inner"]
    assert get_task_handlers() == {"promotion": outer}


def test_a_registration_looks_at_no_other_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ten thousand handlers, as of one for each feed, each would look at all of them."""
    asked: list[str] = []

    class Feed(TaskHandler):
        def __init__(self, number: int) -> None:
            self.biz_code = f"feed-{number}"

        def handle(self, task: Any) -> None:
            pass

        @property
        def is_async(self) -> bool:
            asked.append(self.biz_code)
            return super().is_async

    def first(number: int) -> int:
        asked.clear()
        register_task_handler(Feed(number))
        return len(asked)

    once = first(0)
    assert [first(number) for number in range(1, 50)] == [once] * 49
    monkeypatch.setattr(registry, "get_task_handlers", None)
    assert registry._serves_by_an_instance(Feed)
