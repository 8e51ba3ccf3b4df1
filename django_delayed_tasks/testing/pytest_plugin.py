"""The pytest plugin: the fixture ``delayed_tasks``. It needs pytest-django."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest


@pytest.fixture
def delayed_tasks(db: None) -> Iterator[ModuleType]:
    """Yield the kit, ``django_delayed_tasks.testing``, to a test that uses the database.

    The host's clock counts as the database's, so that a library that moves it moves both. At the end of a test, no
    fault may be left that it has planned and no run has met.
    """
    with kit() as testing:
        yield testing


@contextmanager
def kit() -> Iterator[ModuleType]:
    """Yield the kit; raise AssertionError at the end if a fault is left."""
    from django_delayed_tasks import testing  # models cannot be imported when pytest loads its plugins

    testing.forget_faults()
    with testing.host_clock():
        yield testing
    left = testing.forget_faults()
    assert not left, f"no run has met the fault that was planned for {', '.join(left)}"
