"""Fixtures of this folder."""

from collections.abc import Iterator
from typing import Any

import pytest

from django_delayed_tasks.handlers import registry


@pytest.fixture(autouse=True)
def own_handlers(settings: Any) -> Iterator[None]:
    """Each test has the handlers that it registers itself, and any code may be added."""
    settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True, "REDACT": ["token"]}
    with registry.preserved():
        registry.clear()
        yield
