"""Runs the Python examples of a page one after the other, as a reader would who puts them into one project."""

from types import ModuleType, TracebackType
from typing import Any, Self

from django_delayed_tasks import TaskHandler, register_task_handler, task_handler
from tests.pages import ROOT, Block, blocks


class shown:  # noqa: N801 - it reads as a statement: with shown("how-to/once.md") as page
    """A page, below docs/; ``names`` is what its examples have at hand, and what they have defined, in ``module``.

    As a context manager it asserts at the end that every example has run.
    """

    def __init__(self, page: str, module: ModuleType | None = None, **names: Any) -> None:
        self.page = page
        self.names: dict[str, Any] = vars(module or ModuleType("shop.task_handlers"))
        self.names |= names
        self.waiting: list[tuple[int, Block]] = list(enumerate(blocks(ROOT / "docs" / page, "python"), start=1))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        left = [number for number, _ in self.waiting]
        assert error or not left, f"{self.page}: not run: examples {left}"

    def __getitem__(self, name: str) -> Any:
        """Return what the examples have defined under this name."""
        return self.names[name]

    def run(self, **names: Any) -> Self:
        """Run the next example, with these names at hand as well."""
        self.names |= names
        number, block = self.waiting.pop(0)
        before = dict(self.names)
        exec(compile(block.text, f"{self.page}, example {number}", "exec"), self.names)
        for name, value in self.names.items():
            if value is not before.get(name) and is_handler(value):
                register_task_handler(value)
        return self

    def run_all(self, **names: Any) -> Self:
        """Run all examples that have not run."""
        while self.waiting:
            self.run(**names)
        return self


def is_handler(value: Any) -> bool:
    """Return whether it is a class that an executor would find in the module ``task_handlers`` of an app."""
    return isinstance(value, type) and issubclass(value, TaskHandler) and bool(value.biz_code)


def know(*codes: str) -> None:
    """Register handlers that do nothing, for examples that only add and cancel tasks."""
    for code in codes:
        task_handler(code)(lambda task: None)
