"""Fixtures of this folder."""

from collections.abc import Iterator
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.executor import tally
from django_delayed_tasks.handlers import registry
from tests.admin.rows import NOW


@pytest.fixture(autouse=True)
def own_handlers(settings: Any) -> Iterator[None]:
    """Each test has the handlers that it registers itself, and may add tasks before."""
    settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True}
    with registry.preserved():
        registry.clear()
        yield


@pytest.fixture(autouse=True)
def nothing_counted() -> Iterator[None]:
    """No counts of other tests are left in this process, and none of this test afterwards."""
    tally.forget()
    yield
    tally.forget()


@pytest.fixture
def frozen() -> Iterator[None]:
    """Every clock shows NOW, the database's included."""
    with clock.frozen_at(NOW):
        yield
