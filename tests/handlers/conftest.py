"""A registry of the test's own, and apps that exist for one test."""

import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from django_delayed_tasks.handlers import registry

MakePackage = Callable[[dict[str, str]], str]

_numbers = count()


@pytest.fixture(autouse=True)
def empty_registry() -> Iterator[None]:
    """Nothing is registered or loaded when a test of handlers begins; what was comes back at its end."""
    with registry.preserved():
        registry.clear()
        yield


@pytest.fixture
def make_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakePackage]:
    """Write a package of the given modules ({"task_handlers": source}) that can be imported; its name."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def make(modules: dict[str, str]) -> str:
        name = f"made_for_a_test_{next(_numbers)}"
        made.append(name)
        (tmp_path / name).mkdir()
        for module, source in {"__init__": "", **modules}.items():
            (tmp_path / name / f"{module}.py").write_text(source)
        return name

    yield make
    for module in list(sys.modules):
        if module.split(".")[0] in made:
            del sys.modules[module]
