"""Migrations of a project with several databases: where a router keeps this app away, nothing is done."""

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

pytestmark = pytest.mark.per_database
OURS = "django_delayed_tasks"
AWAY = "away"
"""The alias of the database that the routers keep the app away from."""
READS = ("SELECT", "SHOW", "PRAGMA TABLE_INFO")


class ByApp:
    """A router as Django's documentation has it."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return db != AWAY if app_label == OURS else None


class ByModel:
    """A router that knows models only; a function of ``RunPython`` has none."""

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool | None:
        return db != AWAY if app_label == OURS and model_name else None


ROUTERS = pytest.mark.parametrize("router", [ByApp, ByModel])


@pytest.fixture
def away(django_db_setup: None, django_db_blocker: Any, tmp_path: Any) -> Iterator[Any]:
    """Another connection to the test database, under another alias."""
    connections.settings[AWAY] = {**connection.settings_dict}
    with django_db_blocker.unblock():
        yield connections[AWAY]
        connections[AWAY].close()
    del connections[AWAY]
    del connections.settings[AWAY]


def operations() -> Iterator[tuple[str, Operation, ProjectState, ProjectState]]:
    """Yield every operation of every migration, with the states before and after it."""
    loader = MigrationLoader(None)
    names = [key for key in loader.graph.forwards_plan(loader.graph.leaf_nodes(OURS)[0]) if key[0] == OURS]
    for key in names:
        migration: Any = loader.get_migration(*key)
        state = loader.project_state(key, at_end=False)
        for operation in migration.operations:
            after = state.clone()
            operation.state_forwards(OURS, after)
            yield f"{key[1]}: {operation.describe()}", operation, state, after
            state = after


@ROUTERS
def test_every_operation_asks_the_router(away: Any, router: type) -> None:
    """Otherwise it would fail for want of a table, and with it ``migrate``, and the creation of test databases."""
    count = 0
    with override_settings(DATABASE_ROUTERS=[router()]), away.schema_editor(atomic=False) as editor:
        for name, operation, before, after in operations():
            with CaptureQueriesContext(away) as queries:
                operation.database_forwards(OURS, editor, before, after)
                if operation.reversible:
                    operation.database_backwards(OURS, editor, after, before)
            changes = [query["sql"] for query in queries if not query["sql"].upper().startswith(READS)]
            assert changes == [], name
            count += 1
        assert editor.deferred_sql == []
    assert count > 2


@ROUTERS
def test_another_database_of_the_project_is_migrated_and_checked(
    django_db_setup: None, django_db_blocker: Any, router: type
) -> None:
    """Its test database is created by ``migrate``."""
    name = f"{connection.settings_dict['NAME']}_{AWAY}"
    if connection.vendor == "sqlite":
        name = "file:ddt_away?mode=memory&cache=shared"
    test = {**connection.settings_dict["TEST"], "NAME": name}
    connections.settings[AWAY] = {**connection.settings_dict, "TEST": test}
    with (
        django_db_blocker.unblock(),
        override_settings(DATABASE_ROUTERS=[router()], INSTALLED_APPS=["django.contrib.contenttypes", OURS]),
    ):
        other = connections[AWAY]
        old = other.settings_dict["NAME"]
        try:
            other.creation.create_test_db(verbosity=0, autoclobber=True)
            tables = other.introspection.table_names()
            assert "django_content_type" in tables
            assert [table for table in tables if table.startswith(OURS)] == []
            out = StringIO()
            given: Any = {"tags": ["database"], "databases": ["default", AWAY], "fail_level": "WARNING"}
            call_command("check", stdout=out, stderr=out, **given)
            call_command("migrate", database=AWAY, verbosity=0, interactive=False)
            call_command("migrate", OURS, "zero", database=AWAY, verbosity=0, interactive=False)
        finally:
            other.creation.destroy_test_db(old, verbosity=0)
            other.close()
            del connections[AWAY]
            del connections.settings[AWAY]
