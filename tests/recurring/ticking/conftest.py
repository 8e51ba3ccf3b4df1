"""Fixtures: executors as child processes, with our handlers."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.processes.children import Child
from tests.processes.conftest import Start, folder, start, starttask

__all__ = ["folder", "start", "starttask"]

Execute = Callable[..., Child]


@pytest.fixture
def execute(starttask: Start) -> Execute:
    """``execute(name)``: an executor, with a long lease: what it holds is taken over by who has its name next."""
    ours = {"DJANGO_SETTINGS_MODULE": "tests.recurring.ticking.settings"}
    return partial(starttask, "--threads", "4", "--name", environment=ours, MAX_RESCUES=1000, POLL_INTERVAL=0.2)
