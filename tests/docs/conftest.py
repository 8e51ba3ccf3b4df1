"""The project in which the examples run: the tables of the shop, handlers that are forgotten, and the testing kit."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks.handlers import registry
from tests.docs import shop


@pytest.fixture(scope="session")
def _tables(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock():
        with connection.schema_editor() as editor:
            for model in shop.ALL:
                editor.create_model(model)
    yield
    with django_db_blocker.unblock():
        with connection.schema_editor() as editor:
            for model in shop.ALL:
                editor.delete_model(model)


@pytest.fixture
def in_shop(_tables: None, delayed_tasks: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The testing kit, in a project whose app ``shop`` has the models of the documentation."""
    package, models = ModuleType("shop"), ModuleType("shop.models")
    vars(models).update({model.__name__: model for model in shop.ALL})
    monkeypatch.setitem(sys.modules, "shop", package)
    monkeypatch.setitem(sys.modules, "shop.models", models)
    with registry.preserved():
        registry.clear()
        yield delayed_tasks
