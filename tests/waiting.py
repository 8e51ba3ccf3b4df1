"""Waiting for something to become true, with a limit."""

import time
from collections.abc import Callable

LIMIT = 30.0


def wait_until(is_so: Callable[[], object], timeout: float = LIMIT) -> None:
    """Return as soon as ``is_so()``; AssertionError after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not is_so():
        assert time.monotonic() < deadline, f"not so within {timeout} s"
        time.sleep(0.01)
