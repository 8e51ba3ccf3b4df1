"""The options of a handler are read when it is registered, and never again: what computes them runs in no executor."""

from typing import Any

import pytest

from django_delayed_tasks import TaskHandler
from django_delayed_tasks.exceptions import InvalidHandler
from django_delayed_tasks.handlers import register_task_handler
from tests.executor.parts import add, drain
from tests.handlers.conftest import MakePackage
from tests.handlers.test_loading import loaded_from


def counting(reads: list[str], name: str, value: Any) -> property:
    def read(handler: TaskHandler) -> Any:
        reads.append(name)
        return value

    return property(read)


def test_a_property_is_read_once(live_db: str) -> None:
    reads: list[str] = []
    options = {"max_concurrent": 2, "queue": "mail", "timeout": 5, "atomic": False, "keep_history": "all"}
    properties = {name: counting(reads, name, value) for name, value in options.items()}

    class Mixin:
        """Its property is inherited by a class of handlers."""

        priority = counting(reads, "priority", 7)

    def handle(self: TaskHandler, task: Any) -> None: ...

    cls = type("Computed", (Mixin, TaskHandler), {"biz_code": "computed", "handle": handle, **properties})
    handler = register_task_handler(cls)
    assert sorted(reads) == sorted([*options, "priority"])
    add(code="computed")
    drain()
    assert sorted(reads) == sorted([*options, "priority"])
    assert (handler.max_concurrent, handler.queue, handler.priority) == (2, "mail", 7)


def test_each_handler_of_a_class_reads_its_own() -> None:
    class ForCustomer(TaskHandler):
        def __init__(self, number: int) -> None:
            self.number = number

        def get_biz_code(self) -> str:
            return f"customer-{self.number}"

        @property
        def max_concurrent(self) -> int:  # type: ignore[override]
            return self.number

        def handle(self, task: Any) -> None: ...

    handlers = [register_task_handler(ForCustomer(number)) for number in (1, 2)]
    assert [(handler.biz_code, handler.max_concurrent) for handler in handlers] == [
        ("customer-1", 1),
        ("customer-2", 2),
    ]


def test_nor_is_the_code_asked_for_again(live_db: str) -> None:
    asked: list[str] = []

    class ByMethod(TaskHandler):
        max_concurrent = 1

        def get_biz_code(self) -> str:
            asked.append("code")
            return "by-method"

        def handle(self, task: Any) -> None: ...

    register_task_handler(ByMethod)
    asked.clear()
    add(code="by-method")
    drain()
    assert asked == []


@pytest.mark.parametrize("error", [ValueError("the cache is away"), SystemExit("the cache is away")])
def test_what_raises_is_a_problem_of_registering(error: BaseException) -> None:
    def fail(handler: TaskHandler) -> int:
        raise error

    cls = type("Broken", (TaskHandler,), {"biz_code": "broken", "priority": property(fail)})
    with pytest.raises(InvalidHandler, match=f"Broken: priority cannot be read: {type(error).__name__}: the cache"):
        register_task_handler(cls)


BROKEN = """
from django_delayed_tasks import TaskHandler
class Broken(TaskHandler):
    biz_code = "broken"
    priority = property(lambda self: 1 / 0)
    def handle(self, task): ...
"""


def test_and_of_loading(make_package: MakePackage) -> None:
    package = make_package({"tasks": BROKEN})
    [problem] = loaded_from([f"{package}.tasks.Broken"])
    assert "priority cannot be read: ZeroDivisionError: division by zero" in problem.why
