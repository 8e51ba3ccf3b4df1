"""An executor turned by hand."""

from collections.abc import Iterator

import pytest

from django_delayed_tasks.handlers import registry
from tests.recurring.machine import Machine


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Runs tasks of the code "recurring" at moments that the test names."""
    with registry.preserved():
        yield Machine()
