"""Fixtures for the tests of the store, the races and the API."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.test import override_settings

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming import compare_and_set
from django_delayed_tasks.store.claiming.strategies import Strategy, skip_locked, sole_writer
from django_delayed_tasks.store.sql import clusters
from django_delayed_tasks.store.sql.dialects import mysql
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


ON_MYSQL = django_settings.DDT_DATABASE not in ("sqlite", "postgres")
NO_TABLE_FUNCTION = "SELECT v.x FROM TABLE_OF_JSON('[[1]]') v"


@pytest.fixture(params=["as JSON", "as SELECTs"] if ON_MYSQL else ["as usual"])
def rows_sent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rows are sent in each of the forms for this kind of database; the second is for servers without JSON_TABLE."""
    if request.param != "as SELECTs":
        yield
        return
    monkeypatch.setattr(mysql, "PROBE", NO_TABLE_FUNCTION)
    monkeypatch.setattr(clusters, "_answers", {})
    with connection.execute_wrapper(_refuse_json_table):
        yield


def _refuse_json_table(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    assert "JSON_TABLE" not in sql
    return execute(sql, params, many, context)


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> Strategy:
    """Each way of claiming that this database can do."""
    return STRATEGIES[request.param]
