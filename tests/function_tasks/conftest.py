"""Functions that have noted nothing, and their handlers, for each test."""

from collections.abc import Iterator

import pytest

from django_delayed_tasks.handlers import registry
from tests.function_tasks import functions


@pytest.fixture(autouse=True)
def clean_functions() -> Iterator[None]:
    functions.calls.clear()
    functions.seen.clear()
    functions.started.clear()
    functions.may_end.clear()
    with registry.preserved():
        yield
        functions.may_end.set()
