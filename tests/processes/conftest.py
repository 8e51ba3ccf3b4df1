"""Fixtures: a shared folder, and children that never outlive their test."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from django_delayed_tasks.handlers import register_task_handler, registry
from harness.processes_of_folder import VARIABLE, kill_all
from tests.processes import handlers
from tests.processes.children import Child
from tests.processes.folder import GATES, Folder

Start = Callable[..., Child]

FAST = {"POLL_INTERVAL": 0.1, "THREADS": 4, "HEARTBEAT": 0.5, "LEASE": 60, "SHUTDOWN_TIMEOUT": 50}
"""The lease of tests in which none is to run out: a long one is not lost on a busy machine."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """What the test shares with its children."""
    folder = Folder(tmp_path)
    yield folder
    folder.open_all()


@pytest.fixture(autouse=True)
def _known_codes() -> Iterator[None]:
    with registry.preserved():
        for handler in (
            handlers.Quick,
            handlers.Held,
            handlers.Single,
            handlers.Pooled,
            handlers.Chain,
            handlers.Hanging,
            handlers.Deadly,
        ):
            register_task_handler(handler)
        yield


@pytest.fixture
def start(process_environment: dict[str, str], folder: Folder) -> Iterator[Start]:
    """``start(*arguments, gates=..., environment=..., **DELAYED_TASKS)``: ``python …`` on the test database."""
    children: list[Child] = []

    def start(
        *arguments: str,
        gates: str = "gate",
        environment: dict[str, str] | None = None,
        output: int | None = None,
        **settings: Any,
    ) -> Child:
        variables = {
            **process_environment,
            "DJANGO_SETTINGS_MODULE": "tests.processes.settings",
            "DDT_DELAYED_TASKS": json.dumps({**FAST, **settings}),
            VARIABLE: str(folder.path),
            GATES: gates,
            **(environment or {}),
        }
        child = Child(arguments, variables, folder.path / f"output-{len(children)}.log", output)
        children.append(child)
        return child

    yield start
    kill_all(folder.path)
    for child in children:
        child.close()
        print(f"--- {child.arguments}:\n{child.output}")  # pytest shows it when the test has failed


@pytest.fixture
def starttask(start: Start) -> Start:
    """``starttask(*options, **as start)``: the command, as a user would start it."""

    def starttask(*options: str, **given: Any) -> Child:
        return start("-m", "django", "starttask", *options, **given)

    return starttask


@pytest.fixture
def unknown_codes() -> Iterator[None]:
    """The test may add tasks that no handler is known for."""
    with override_settings(DELAYED_TASKS={"ALLOW_UNKNOWN_CODES": True}):
        yield
