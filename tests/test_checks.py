"""The system checks."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core import checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection, connections
from django.test import modify_settings, override_settings

from django_delayed_tasks.checks import databases as database_checks
from django_delayed_tasks.handlers import TaskHandler, register_task_handler, registry
from tests.handlers.conftest import make_package  # noqa: F401 (a fixture)

ExtraDatabase = Callable[[dict[str, Any]], AbstractContextManager[None]]
PREFIX = "django_delayed_tasks."
DEFAULT_ONLY = ["default"]


@pytest.fixture(autouse=True)
def empty_registry() -> Iterator[None]:
    with registry.preserved():
        registry.clear()
        yield


def found(databases: list[str] | None = None) -> list[checks.CheckMessage]:
    """Our complaints; the databases' too when some are given."""
    tags = ["delayed_tasks", "database"] if databases else ["delayed_tasks"]
    messages = checks.run_checks(tags=tags, databases=databases)
    return [message for message in messages if str(message.id).startswith(PREFIX)]


def numbers(databases: list[str] | None = None) -> list[str]:
    """The ids of all complaints, without the prefix that every one has."""
    return sorted(str(message.id).removeprefix(PREFIX) for message in found(databases))


def the_only(databases: list[str] | None = None) -> checks.CheckMessage:
    (message,) = found(databases)
    return message


@pytest.fixture
def extra_database(django_db_setup: None, django_db_blocker: Any) -> ExtraDatabase:
    """A database more, as the alias "extra" and as the one of the tasks, that no test run has created."""

    @contextmanager
    def extra(entry: dict[str, Any]) -> Iterator[None]:
        both = {"default": connections.settings["default"], "extra": entry}
        connections.settings["extra"] = connections.configure_settings(both)["extra"]
        chosen = override_settings(DELAYED_TASKS={"DATABASE": "extra"})
        try:
            with django_db_blocker.unblock(), chosen:
                yield
                connections["extra"].close()
        finally:
            del connections["extra"], connections.settings["extra"]

    return extra


def sqlite(path: object, **options: Any) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path), "OPTIONS": options}


GOOD = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"}


@pytest.mark.django_db
def test_a_good_project_has_no_complaints() -> None:
    assert found(DEFAULT_ONLY) == []


def test_every_message_is_explained() -> None:
    page = Path(__file__).resolve().parent.parent / "docs/reference/checks.md"
    sources = "".join(path.read_text() for path in Path(database_checks.__file__).parent.glob("*.py"))
    explained = re.findall(r"^\| `([EW]\d{3})` \|", page.read_text(), re.MULTILINE)
    assert len(explained) > 15
    assert sorted(explained) == sorted(set(re.findall(r"\b[EW]\d{3}\b", sources)))


# Settings


@pytest.mark.parametrize(
    ("given", "expected", "text"),
    [
        ({"THREADS": 0}, "E001", "DELAYED_TASKS['THREADS']: 0: expected an int from 1"),
        ({"KEEP_HISTORY": 7}, "E001", "timedelta(days=7)"),
        ([], "E001", "expected a dict"),
        ({"THREDS": 4}, "E002", "no key 'THREDS'"),
        ({"HEARTBEAT": 5, "LEASE": timedelta(seconds=10)}, "E003", "longer than two heartbeats"),
        ({"DATABASE": "nowhere"}, "E004", "no database 'nowhere'"),
    ],
)
def test_wrong_settings(given: Any, expected: str, text: str) -> None:
    with override_settings(DELAYED_TASKS=given):
        message = the_only()
    assert message.id == PREFIX + expected
    assert message.level == checks.ERROR
    assert text in message.msg


@pytest.mark.parametrize(
    ("key", "meant"), [("THREDS", "THREADS"), ("threads", "THREADS"), ("POLL_INTERVALS", "POLL_INTERVAL")]
)
def test_an_unknown_key_comes_with_the_likely_one(key: str, meant: str) -> None:
    with override_settings(DELAYED_TASKS={key: 4}):
        assert the_only().hint == f"Did you mean {meant}?"


def test_a_key_like_no_other_comes_with_all() -> None:
    with override_settings(DELAYED_TASKS={"XYZ": 4}):
        assert "THREADS" in str(the_only().hint)


def test_all_wrong_settings_are_reported_together() -> None:
    with override_settings(DELAYED_TASKS={"THREADS": 0, "CLAIM": "fast", "THREDS": 1}, USE_TZ=False):
        assert numbers() == ["E001", "E001", "E002", "E005"]


def test_use_tz_is_required() -> None:
    with override_settings(USE_TZ=False):
        assert numbers() == ["E005"]


# Handlers


class Promotion(TaskHandler):
    biz_code = "promotion"

    def handle(self, task: Any) -> None: ...


class Rival(Promotion):
    pass


@pytest.mark.parametrize(
    ("paths", "expected", "text"),
    [
        (["no_such_package.Handler"], "E006", "cannot be imported: ModuleNotFoundError"),
        ([f"{__name__}.Missing"], "E006", "Missing"),
        ([f"{__name__}.GOOD"], "E007", "expected a TaskHandler"),
        ([f"{__name__}.Promotion", f"{__name__}.Rival"], "E007", "two handlers for one code"),
        ("shop.Handler", "E007", "expected a list of dotted paths"),
    ],
)
def test_wrong_handlers(paths: Any, expected: str, text: str) -> None:
    with override_settings(TASK_HANDLERS=paths):
        message = the_only()
    assert message.id == PREFIX + expected
    assert text in message.msg


def test_an_error_in_an_app_does_not_stop_django_but_its_checks(make_package: Any) -> None:  # noqa: F811
    package = make_package({"task_handlers": "import no_such_library"})
    with modify_settings(INSTALLED_APPS={"append": package}):
        apps.check_apps_ready()
        with pytest.raises(SystemCheckError, match=f"{package}.task_handlers cannot be imported"):
            call_command("check")


@pytest.mark.parametrize(
    ("attribute", "meant"),
    [
        ("max_attemps", "max_attempts"),
        ("time_out", "timeout"),
        ("on_fail", "on_failed"),
        ("bizcode", "biz_code"),
    ],
)
def test_a_misspelt_attribute_is_pointed_out(attribute: str, meant: str) -> None:
    register_task_handler(type("Careless", (Promotion,), {attribute: 3}))
    message = the_only()
    assert (message.id, message.level) == (PREFIX + "W001", checks.WARNING)
    assert f"Careless has an attribute {attribute!r}" in message.msg
    assert message.hint == f"Did you mean {meant}?"


def test_attributes_of_its_own_are_the_handlers_business() -> None:
    own = {"percent": 20, "send_mail": None, "_max_attemps": 1, "max_attempts": 3}
    register_task_handler(type("Proper", (Promotion,), own))
    assert found() == []


NO_CODE = """
from django_delayed_tasks import TaskHandler
class Base(TaskHandler):
    def handle(self, task): ...
class Used(Base):
    biz_code = "used"
class Forgotten(Base): ...
"""


def test_a_class_without_code_that_nothing_builds_on_is_pointed_out(make_package: Any) -> None:  # noqa: F811
    package = make_package({"task_handlers": NO_CODE})
    with modify_settings(INSTALLED_APPS={"append": package}):
        message = the_only()
    assert message.id == PREFIX + "W002"
    assert f"{package}.task_handlers.Forgotten has no biz_code" in message.msg


# How databases are configured


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["W010"]),
        ({"transaction_mode": None}, ["W010"]),
        ({"transaction_mode": "DEFERRED"}, ["W010"]),
        ({"transaction_mode": "IMMEDIATE"}, []),
        ({"transaction_mode": "immediate"}, []),
        ({"transaction_mode": "EXCLUSIVE"}, []),
    ],
)
def test_sqlite_begins_immediate(extra_database: ExtraDatabase, options: dict[str, Any], expected: list[str]) -> None:
    with extra_database(sqlite("x.sqlite3", **options)):
        assert numbers() == expected
        with override_settings(DELAYED_TASKS={}):
            assert numbers() == [], "it is not the database of the tasks"


ENGINES = {"sqlite3": ["E011"], "mysql": ["E011"], "postgresql": []}


@pytest.mark.parametrize(
    ("zone", "refused"), [(None, False), ("UTC", False), ("Etc/UTC", False), ("Europe/Berlin", True)]
)
def test_the_database_of_this_run_stores_utc(extra_database: ExtraDatabase, zone: str | None, refused: bool) -> None:
    """PostgreSQL keeps moments, whatever the session's zone; the others keep what Django writes."""
    entry = {**connections.settings["default"], "TIME_ZONE": zone}
    with extra_database(entry):
        wrong = ENGINES[entry["ENGINE"].rpartition(".")[2]]
        assert numbers() == (wrong if refused else [])


def test_other_databases_are_not_supported(extra_database: ExtraDatabase) -> None:
    dummy = {"ENGINE": "django.db.backends.dummy"}
    with extra_database(dummy):
        assert numbers(["extra"]) == ["E010"]


# What the databases themselves tell


@pytest.fixture
def too_old(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server is new enough."""
    for name in database_checks.LOWEST_VERSIONS:
        monkeypatch.setitem(database_checks.LOWEST_VERSIONS, name, (99, 1))


def test_an_old_server_is_refused(too_old: None) -> None:
    message = the_only(DEFAULT_ONLY)
    assert message.id == PREFIX + "E012"
    assert message.hint == "The lowest supported version is 99.1."


def test_databases_are_only_asked_when_django_says_so(too_old: None) -> None:
    call_command("check")
    call_command("check", "--tag", "delayed_tasks")
    with pytest.raises(SystemCheckError, match="E012"):
        call_command("check", "--database", "default")


def test_lowest_versions() -> None:
    assert database_checks.LOWEST_VERSIONS == {
        "SQLite": (3, 37),
        "MariaDB": (10, 6),
        "MySQL": (8, 4),
        "PostgreSQL": (14,),
    }


MYSQL_LEVEL = "SET SESSION TRANSACTION ISOLATION LEVEL {}"
POSTGRES_LEVEL = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {}"
SET_LEVEL = {"mariadb": MYSQL_LEVEL, "mysql": MYSQL_LEVEL, "postgres": POSTGRES_LEVEL, "sqlite": "SELECT 1"}


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "READ UNCOMMITTED"])
def test_mysql_reads_committed(live_db: str, level: str) -> None:
    wrong = live_db in ("mariadb", "mysql") and level != "READ COMMITTED"
    try:
        with connection.cursor() as cursor:
            cursor.execute(SET_LEVEL[live_db].format(level))
        messages = found(DEFAULT_ONLY)
    finally:
        connection.close()
    assert [message.id for message in messages] == ([PREFIX + "E013"] if wrong else [])
    assert [level.replace(" ", "-") in message.msg for message in messages] == ([True] if wrong else [])


@pytest.mark.parametrize("option", [None, "repeatable read"])
def test_mysql_options_that_change_the_level(extra_database: ExtraDatabase, database: str, option: str | None) -> None:
    """Without the option it is the server's own default, REPEATABLE READ."""
    mysql = database in ("mariadb", "mysql")
    entry = {**connections.settings["default"]}
    if mysql:
        entry["OPTIONS"] = {**entry["OPTIONS"], "isolation_level": option}
    with extra_database(entry):
        assert numbers(["extra"]) == (["E013"] if mysql else [])


@pytest.fixture
def table_without_transactions(live_db: str) -> Iterator[str]:
    """A table of ours in an engine without transactions, where there are engines; its name, or nothing."""
    if live_db not in ("mariadb", "mysql"):
        yield ""
        return
    table = "django_delayed_tasks_executor"
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} ENGINE=MyISAM")
        yield table
        cursor.execute(f"ALTER TABLE {table} ENGINE=InnoDB")


def test_mysql_tables_have_transactions(table_without_transactions: str) -> None:
    messages = found(DEFAULT_ONLY)
    expected = [PREFIX + "E014"] if table_without_transactions else []
    assert [message.id for message in messages] == expected
    assert [message.hint for message in messages] == (
        [f"ALTER TABLE {table_without_transactions} ENGINE=InnoDB"] if expected else []
    )


@pytest.mark.parametrize(("mode", "expected"), [("WAL", []), ("DELETE", ["W011"]), ("TRUNCATE", ["W011"])])
def test_sqlite_files_have_a_write_ahead_log(
    extra_database: ExtraDatabase, tmp_path: Path, mode: str, expected: list[str]
) -> None:
    options = {**GOOD, "init_command": f"PRAGMA journal_mode={mode}"}
    entry = sqlite(tmp_path / "x.sqlite3", **options)
    with extra_database(entry):
        assert numbers(["extra"]) == expected


def test_sqlite_in_memory_needs_no_log(
    extra_database: ExtraDatabase,
) -> None:
    entry = sqlite(":memory:", transaction_mode="IMMEDIATE")
    with extra_database(entry):
        assert numbers(["extra"]) == []


@pytest.mark.parametrize(("tables", "expected"), [(["django_delayed_tasks_task"], ["W011"]), (["shop"], [])])
def test_another_database_counts_when_it_has_our_tables(
    extra_database: ExtraDatabase, tmp_path: Path, tables: list[str], expected: list[str]
) -> None:
    entry = sqlite(tmp_path / "x.sqlite3", transaction_mode="IMMEDIATE")
    with extra_database(entry), override_settings(DELAYED_TASKS={}):
        with connections["extra"].cursor() as cursor:
            for table in tables:
                cursor.execute(f"CREATE TABLE {table} (id INTEGER)")
        assert numbers(["extra"]) == expected
