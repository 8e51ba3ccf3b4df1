"""Fixtures for the tests of the store, the races and the API."""

from collections.abc import Iterator

import pytest
from django.conf import settings as django_settings
from django.test import override_settings

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming import compare_and_set
from django_delayed_tasks.store.claiming.strategies import Strategy, skip_locked, sole_writer
from tests.store.verbs import NOW

STRATEGIES: dict[str, Strategy] = {"compare_and_set": compare_and_set.claim}
if django_settings.DDT_DATABASE == "sqlite":
    STRATEGIES["sole_writer"] = sole_writer
if django_settings.DDT_DATABASE == "postgres":
    STRATEGIES["skip_locked"] = skip_locked


@pytest.fixture(autouse=True)
def any_code() -> Iterator[None]:
    """Tasks need no handler."""
    with override_settings(DELAYED_TASKS={"ALLOW_UNKNOWN_CODES": True}):
        yield


@pytest.fixture
def frozen() -> Iterator[None]:
    """Every clock shows NOW, the database's included."""
    with clock.frozen_at(NOW):
        yield


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> Strategy:
    """Each way of claiming that this database can do."""
    return STRATEGIES[request.param]
