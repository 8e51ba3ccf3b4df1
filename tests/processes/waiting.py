"""Waiting for what another process does, by looking at what it leaves behind."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds; long, so that only what never comes is an error on a busy machine."""
LOOK_EVERY = 0.02


def wait_until(predicate: Callable[[], T], timeout: float = PATIENCE, what: Callable[[], str] = lambda: "") -> T:
    """The first true value of ``predicate()``; AssertionError, with ``what()``, when there is none in time."""
    deadline = time.monotonic() + timeout
    while not (value := predicate()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{predicate.__qualname__} was not true within {timeout:g} s. {what()}")
        time.sleep(LOOK_EVERY)
    return value
