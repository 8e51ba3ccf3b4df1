"""Fixtures that every test may use."""

import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.db import connection

from django_delayed_tasks.store.claiming import compare_and_set
from django_delayed_tasks.store.notices import wakeup
from harness import ROOT
from harness.database_urls import build
from harness.suite.leaving_out import pytest_runtest_call as pytest_runtest_call
from harness.suite.leaving_out import pytest_runtest_setup as pytest_runtest_setup
from harness.suite.parts import ALL, DATABASES, LANDING, ONLY_ON, PER_DATABASE, SELECTION, can_run, is_within, runs_on

# The same examples in every run, and none of them an error because the machine was busy.
hypothesis.settings.register_profile(
    "suite",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("suite")


# Tests hold locks by hand for as long as it takes to see that another connection waits.
compare_and_set.LOCK_WAIT = 60  # type: ignore[misc]

ONLY_OURS = pytest.mark.django_db(transaction=True, available_apps=["django_delayed_tasks"])
"""The mark of a test that commits: only our tables are emptied after it, which is a fraction of the work."""
OTHER_APPS_TOO = ("admin", "shop", "fuzz")
"""Folders of tests that need more than our app."""
FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `SELECTION` does not ask for: on servers a landing runs what can differ by database."""
    selection = os.environ.get(SELECTION, ALL)
    if selection == ALL or settings.DDT_DATABASE not in DATABASES:
        return
    left_out = [item for item in items if lands(item) != (selection == LANDING)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Spare the garbage collector what stays until the end: it takes a twentieth of the time."""
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the files whose tests cannot run on this database."""
    path = str(collection_path.relative_to(ROOT))
    return True if path.endswith(".py") and not can_run(path, settings.DDT_DATABASE) else None


def lands(item: pytest.Item) -> bool:
    """Return whether a landing runs this test on this database."""
    path = str(item.path.relative_to(ROOT))
    can_differ = item.get_closest_marker("per_database") or is_within(path, (*PER_DATABASE, *ONLY_ON))
    return settings.DDT_DATABASE == "sqlite" or bool(can_differ and runs_on(path, settings.DDT_DATABASE))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that commit, unless their own mark says which apps they need; None is all."""
    marker = item.get_closest_marker("django_db")
    if item.path.relative_to(FOLDER).parts[0] in OTHER_APPS_TOO or (marker and "available_apps" in marker.kwargs):
        return
    fixtures = getattr(item, "fixturenames", ())
    if "transactional_db" in fixtures or (marker and marker.kwargs.get("transaction")):
        item.add_marker(ONLY_OURS, append=False)


@pytest.fixture(scope="session", autouse=True)
def _only_used_tables_are_emptied() -> None:
    """On PostgreSQL, to empty a table after a test takes 8 ms, whether it has rows or not."""
    if connection.vendor == "postgresql":
        connection.ops.sql_flush = _truncate_used  # type: ignore[method-assign]


def _truncate_used(style: Any, tables: Sequence[str], **_: Any) -> list[str]:
    with connection.cursor() as cursor:
        used_ones = "SELECT relname FROM pg_class WHERE relname = ANY(%s) AND pg_relation_size(oid) > 0"
        cursor.execute(used_ones, [list(tables)])
        used = [connection.ops.quote_name(name) for (name,) in cursor.fetchall()]
    return [f"TRUNCATE {', '.join(used)} CASCADE"] if used else []


@pytest.fixture(scope="session", autouse=True)
def _sessions_left_open_are_named_and_ended() -> None:
    """A thread that ends later than its test may have a session, because of which PostgreSQL would drop no database."""
    if connection.vendor != "postgresql":
        return
    creation: Any = connection.creation
    usual = creation._destroy_test_db

    def destroy(name: str, verbosity: int) -> None:
        with creation._nodb_cursor() as cursor:
            others = "FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
            cursor.execute(f"SELECT application_name, state, query, pg_terminate_backend(pid) {others}", [name])
            for left in cursor.fetchall():
                print("a session was left open:", *left)
        usual(name, verbosity)

    creation._destroy_test_db = destroy


@pytest.fixture(autouse=True)
def _nothing_said() -> None:
    """Forget when notices were sent: a test with a clock of its own may have sent one in the future."""
    wakeup._sent.at.clear()


@pytest.fixture(scope="session")
def database() -> str:
    """The database of this run: "sqlite", "mariadb", "mysql" or "postgres"."""
    return str(settings.DDT_DATABASE)


@pytest.fixture
def live_db(transactional_db: None, database: str) -> str:
    """A database whose commits other threads and processes see; its name, as `database`."""
    return database


@pytest.fixture
def process_environment(live_db: str) -> dict[str, str]:
    """The environment for a child process that is to work on the test database with ``tests.settings``."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "DDT_DATABASE": live_db,
        f"DATABASE_URL_{live_db.upper()}": build(connection.settings_dict),
    }
