"""The system checks of databases: how they are configured, and what they tell."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core import checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import override_settings

from django_delayed_tasks import Task, api
from django_delayed_tasks.checks import databases as database_checks
from django_delayed_tasks.checks.databases import by_an_executor
from django_delayed_tasks.handlers import TaskHandler, get_task_handlers, register_task_handler, registry
from django_delayed_tasks.leases import Pool
from tests.complaints import PREFIX, found, numbers, the_only

pytestmark = pytest.mark.per_database

ExtraDatabase = Callable[[dict[str, Any]], AbstractContextManager[None]]
DEFAULT_ONLY = ["default"]
UNMIGRATED = "W025"


@pytest.fixture(autouse=True)
def no_atomic_handlers() -> Iterator[None]:
    """Other tests have some, which need the data and the tasks in one database."""
    with registry.preserved():
        for handler in get_task_handlers().values():
            if handler.atomic:
                registry.withdraw(handler)
        yield


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
        finally:
            BaseDatabaseWrapper.close(connections["extra"])  # SQLite's own close() keeps one in memory open
            del connections["extra"], connections.settings["extra"]

    return extra


def sqlite(path: object, **options: Any) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path), "OPTIONS": options}


GOOD = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"}


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


def test_the_hints_for_sqlite_can_be_pasted(extra_database: ExtraDatabase, tmp_path: Path) -> None:
    """A new project's DATABASES has no OPTIONS."""
    databases: dict[str, Any] = {"extra": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "x.sqlite3")}}
    with extra_database(dict(databases["extra"])):
        messages = [message for message in found(["extra"]) if message.id != PREFIX + UNMIGRATED]
    messages.sort(key=lambda message: str(message.id))  # Django runs checks in no order
    assert [message.id for message in messages] == [PREFIX + "W010", PREFIX + "W011"]
    for message in messages:
        exec(str(message.hint).partition("Add to the settings: ")[2], {"DATABASES": databases})
    with extra_database(databases["extra"]):
        assert numbers(["extra"]) == [UNMIGRATED]


def test_autocommit_is_on(extra_database: ExtraDatabase) -> None:
    entry = {**connections.settings["default"], "AUTOCOMMIT": False}
    with extra_database(entry):
        assert numbers() == ["E008"]


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
    """Make every server too old."""
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
        assert numbers(["extra"]) == [*expected, UNMIGRATED]


@pytest.mark.parametrize(
    ("name", "mode", "expected"),
    [
        (":memory:", "executor", ["W019"]),
        ("file:tasks?mode=memory&cache=shared", "executor", ["W019"]),
        (":memory:", "inline", []),
        ("file:memorydb_extra?mode=memory&cache=shared", "executor", []),
    ],
    ids=["private", "shared", "inline", "of the test runner"],
)
def test_sqlite_in_memory_needs_no_log_and_takes_no_executor(
    extra_database: ExtraDatabase, name: str, mode: str, expected: list[str]
) -> None:
    with extra_database(sqlite(name, transaction_mode="IMMEDIATE")):
        with override_settings(DELAYED_TASKS={"DATABASE": "extra", "MODE": mode}):
            assert numbers(["extra"]) == [*expected, UNMIGRATED]


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


# Pools


class Payment(TaskHandler):
    biz_code = "payment"
    pool = "gateways"

    def handle(self, task: Any) -> None: ...


@pytest.mark.django_db
@pytest.mark.parametrize("claim", ["auto", "compare_and_set", "skip_locked"])
def test_skip_locked_is_for_postgres_only(database: str, claim: str) -> None:
    with override_settings(DELAYED_TASKS={"CLAIM": claim}):
        if claim == "skip_locked" and database != "postgres":
            message = the_only(DEFAULT_ONLY)
            assert (message.id, message.level) == (PREFIX + "E016", checks.ERROR)
            assert f"'skip_locked', and the database 'default' is {connection.display_name}" in message.msg
            assert "Remove CLAIM" in str(message.hint)
        else:
            assert numbers(DEFAULT_ONLY) == []


@pytest.fixture
def payments() -> Iterator[None]:
    """A handler whose tasks need a resource."""
    with registry.preserved():
        register_task_handler(Payment)
        yield


@pytest.mark.django_db
@pytest.mark.usefixtures("payments")
def test_a_pool_that_a_handler_needs_has_resources() -> None:
    assert numbers(DEFAULT_ONLY) == []  # nothing waits in a new database, such as that of each run of the tests
    with by_an_executor():
        assert numbers(DEFAULT_ONLY) == ["W017"]
    api.add_task(Task(biz_code="payment", biz_num="1"))
    message = the_only(DEFAULT_ONLY)
    assert (message.id, message.level) == (PREFIX + "W017", checks.WARNING)
    assert f"{__name__}.Payment needs a resource of the pool 'gateways', which is empty" in message.msg
    assert "Pool('gateways').add(...)" in str(message.hint)
    Pool("gateway").add("north")
    assert numbers(DEFAULT_ONLY) == ["W017"]
    Pool("gateways").add("north")
    assert numbers(DEFAULT_ONLY) == []
    Pool("gateways").disable("north")
    message = the_only(DEFAULT_ONLY)
    assert message.id == PREFIX + "W017"
    assert "Payment needs a resource of the pool 'gateways', whose resources are all disabled" in message.msg
    assert "Pool('gateways').enable(...)" in str(message.hint)
    Pool("gateways").add("south")
    assert numbers(DEFAULT_ONLY) == []


@pytest.mark.django_db
@pytest.mark.usefixtures("payments")
def test_a_pool_that_two_handlers_need_is_said_once() -> None:
    class Refund(Payment):
        biz_code = "refund"

    register_task_handler(Refund)
    with by_an_executor():
        message = the_only(DEFAULT_ONLY)
    assert "Payment, " in message.msg
    assert "Refund need a resource of the pool 'gateways'" in message.msg


@pytest.mark.usefixtures("payments")
def test_pools_are_not_looked_for_before_migrate(extra_database: ExtraDatabase, tmp_path: Path) -> None:
    with extra_database(sqlite(tmp_path / "x.sqlite3", **GOOD)):
        assert numbers(["extra"]) == [UNMIGRATED]
        assert numbers() == []


def test_a_database_before_migrate(
    extra_database: ExtraDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with extra_database(sqlite(tmp_path / "x.sqlite3", **GOOD)):
        assert "'extra' lacks tables or columns" in the_only(["extra"]).msg
        assert str(the_only(["extra"]).hint).startswith("Run `manage.py migrate` first")
        with by_an_executor():  # which refuses to start
            assert numbers(["extra"]) == []
        with monkeypatch.context() as patched:
            patched.setattr("sys.argv", ["manage.py", "migrate", "--database", "extra"])
            assert numbers(["extra"]) == []
        call_command("migrate", "django_delayed_tasks", database="extra", verbosity=0)
        assert numbers(["extra"]) == []
        with connections["extra"].cursor() as cursor:
            cursor.execute("ALTER TABLE django_delayed_tasks_executor DROP COLUMN host_time")
        assert numbers(["extra"]) == [UNMIGRATED]
        assert "`manage.py migrate` changes nothing" in str(the_only(["extra"]).hint)


def test_tables_that_a_router_left_out_can_be_made(extra_database: ExtraDatabase, tmp_path: Path) -> None:
    with extra_database(sqlite(tmp_path / "x.sqlite3", **GOOD)):
        call_command("migrate", "django_delayed_tasks", database="extra", verbosity=0, fake=True)
        assert "migrate django_delayed_tasks zero --fake`" in str(the_only(["extra"]).hint)
        call_command("migrate", "django_delayed_tasks", "zero", database="extra", verbosity=0, fake=True)
        call_command("migrate", "django_delayed_tasks", database="extra", verbosity=0)
        assert numbers(["extra"]) == []
