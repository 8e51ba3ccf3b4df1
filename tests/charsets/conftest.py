"""Databases that are created once for a test run, and emptied after each test."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings

from django_delayed_tasks.handlers import registry
from tests.charsets.databases import WHOLE, created, empty, switched_to


@pytest.fixture(autouse=True)
def own_handlers(settings: Any) -> Iterator[None]:
    """Each test has the handlers that it registers itself, and may add tasks before."""
    settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True}
    with registry.preserved():
        registry.clear()
        yield


@pytest.fixture(scope="session", params=WHOLE[settings.DDT_DATABASE])
def whole_name(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    with django_db_blocker.unblock(), created(request.param) as name:
        yield name


@pytest.fixture(scope="session")
def narrow_name(django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    with django_db_blocker.unblock(), created("LATIN1") as name:
        yield name


@pytest.fixture
def whole(whole_name: str, django_db_blocker: Any) -> Iterator[str]:
    """The default database is one with another default character set, that has been migrated."""
    with django_db_blocker.unblock(), switched_to(whole_name):
        yield whole_name
        empty()


@pytest.fixture
def narrow(narrow_name: str, django_db_blocker: Any) -> Iterator[str]:
    """The default database is one of PostgreSQL that cannot hold every text."""
    with django_db_blocker.unblock(), switched_to(narrow_name):
        yield narrow_name
        empty()
