"""What a class says by overriding methods holds also if another app sets the method after the registration."""

from typing import Any

from django_delayed_tasks import TaskHandler
from tests.executor.parts import handler_of


def test_a_key() -> None:
    handler = handler_of(lambda task: None, max_concurrent=1)
    assert not handler.is_keyed
    type(handler).concurrency_key = lambda self, task: "one"  # type: ignore[method-assign]
    assert handler.is_keyed


def test_a_key_of_a_base() -> None:
    class Base(TaskHandler):
        biz_code = "keyed"

    class Keyed(Base):
        def handle(self, task: Any) -> None:
            return None

    Base.concurrency_key = lambda self, task: "one"  # type: ignore[method-assign]
    assert Keyed().is_keyed


def test_a_batch() -> None:
    handler = handler_of(lambda task: None)
    assert not handler.is_batched
    type(handler).handle_batch = lambda self, tasks: None  # type: ignore[method-assign]
    assert handler.is_batched
