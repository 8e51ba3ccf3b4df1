"""Handlers that are forgotten after each test."""

from collections.abc import Iterator

import pytest

from django_delayed_tasks import testing
from django_delayed_tasks.handlers import registry


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    testing.forget_faults()
    with registry.preserved():
        registry.clear()
        yield
