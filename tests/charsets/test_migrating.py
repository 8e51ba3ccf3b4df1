"""Migration 0002: tables of old databases, with their rows, become able to hold every text."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_delayed_tasks import api
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.models import Resource, Task, TaskRun
from django_delayed_tasks.store.sql.tables import TASK
from tests.charsets.databases import OURS, created, make_up_for, migrate, switched_to
from tests.charsets.texts import MIXED
from tests.complaints import found, numbers
from tests.executor.parts import held_with
from tests.executor.settling.writing import settler_of
from tests.store import verbs
from tests.store.verbs import HOUR

TABLES = [model._meta.db_table for model in OURS]
OLD = "é €"
"""A text of latin1."""


@pytest.fixture(params=["latin1", "utf8mb3", "utf8mb4"])
def old(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any) -> Any:
    """The default database has this default character set, and our tables before the migration."""
    with django_db_blocker.unblock(), created(request.param, "0002") as name, switched_to(name):
        yield request.param


def ask(sql: str, *parameters: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


def charsets() -> set[str]:
    """Return the character sets of all text columns, and those of the tables for columns to come."""
    columns = ask(
        "SELECT CHARACTER_SET_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()"
        " AND TABLE_NAME LIKE 'django_delayed_tasks%%' AND CHARACTER_SET_NAME IS NOT NULL"
    )
    tables = ask(
        "SELECT TABLE_COLLATION FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
        " AND TABLE_NAME LIKE 'django_delayed_tasks%%'"
    )
    return {charset for (charset,) in columns} | {collation.partition("_")[0] for (collation,) in tables}


def shapes() -> list[str]:
    """The tables as the server describes them, without character sets and where the next row's id is."""
    said = [ask(f"SHOW CREATE TABLE {table}")[0][1] for table in TABLES]
    return [
        re.sub(r" CHARACTER SET \w+| COLLATE[ =](?!utf8mb4_bin)\w+| DEFAULT CHARSET=\w+| AUTO_INCREMENT=\d+", "", text)
        for text in said
    ]


def fill() -> None:
    verbs.add("1", biz_ext={"x": MIXED})
    verbs.add("2", HOUR, queue=MIXED)
    run = verbs.claim_one()
    verbs.settle(verbs.retry(run, error=OLD))
    Task._base_manager.update(progress_note=OLD)
    Resource.objects.create(pool="p", name=MIXED, host=OLD, busy_before=verbs.NOW, version=1, payload=[MIXED])


def rows() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in OURS]


def test_rows_and_shapes_remain(old: str) -> None:
    fill()
    before, as_created = rows(), shapes()
    make_up_for("0002")
    assert charsets() == {"utf8mb4"}
    assert (rows(), shapes()) == (before, as_created)
    Task._base_manager.update(last_error=MIXED, progress_note=MIXED)
    assert set(Task.objects.values_list("last_error", "progress_note")) == {(MIXED, MIXED)}
    before = rows()
    migrate("0001")
    migrate()
    assert rows() == before, "back and forth"


def test_tables_that_are_right_are_left_alone(whole: str) -> None:
    migrate("0001")
    with CaptureQueriesContext(connection) as captured:
        migrate("0002")
    assert [query["sql"] for query in captured if query["sql"].startswith("ALTER")] == []
    migrate()


@pytest.mark.parametrize("row_format", ["COMPACT", "REDUNDANT"])
def test_numbers_have_255_characters_in_any_row_format(
    row_format: str, django_db_setup: None, django_db_blocker: Any
) -> None:
    """In these formats, which a setting of the server may choose, an index on so long a column is an error."""

    def as_with_the_setting(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("SHOW VARIABLES"):
            sql = f"SELECT 'innodb_default_row_format', '{row_format.lower()}'"
        elif sql.startswith("CREATE TABLE") and "ROW_FORMAT" not in sql:
            sql += f" ROW_FORMAT = {row_format}"
        return execute(sql, params, many, context)

    with (
        django_db_blocker.unblock(),
        connection.execute_wrapper(as_with_the_setting),
        created("latin1") as name,
        switched_to(name),
    ):
        assert verbs.add("\U0001f680" * 255).action == "created"
        assert verbs.add("\U0001f680" * 255).action == "replaced"
        assert numbers(["default"]) == []


def test_a_new_database_is_right_at_once(whole: str) -> None:
    assert charsets() == {"utf8mb4"}
    assert numbers(["default"]) == []


def test_before_it_the_check_says_what_to_run(old: str) -> None:
    messages = found(["default"])
    if old == "utf8mb4":
        assert messages == []
        return
    assert {message.id for message in messages} == {"django_delayed_tasks.W021"}
    assert "last_error (" in "".join(message.msg for message in messages)
    assert len(messages) == 5, "executor, recurrence, resource, task, run"
    for message in messages:
        ask(str(message.hint).partition("escapes. ")[2].partition("; or")[0])
    assert numbers(["default"]) == []


@pytest.mark.parametrize("whole_name", ["latin1"], indirect=True)
@pytest.mark.parametrize("charset", ["latin1", "utf8mb4 COLLATE utf8mb4_unicode_ci"])
def test_tables_that_were_converted_by_hand(whole: str, charset: str) -> None:
    """As a dump that is read again may do; identities would be taken for others."""
    right = shapes()
    for table in TABLES:
        ask(f"ALTER TABLE {table} CONVERT TO CHARACTER SET {charset}")
    messages = found(["default"])
    assert [message.id for message in messages] == ["django_delayed_tasks.E021"] * len(TABLES)
    for message in messages:
        ask(str(message.hint).partition("; or")[0])
    assert (numbers(["default"]), shapes()) == ([], right)


def test_a_settlement_that_fits_no_collation_is_not_tried_for_ever(
    django_db_setup: None, django_db_blocker: Any
) -> None:
    """MariaDB says "illegal mix of collations", which is no outage: the run has failed, and what follows it comes."""
    with django_db_blocker.unblock(), created("latin1") as name, switched_to(name):
        ask(f"ALTER TABLE {TASK} CONVERT TO CHARACTER SET latin1")
        verbs.add("1", biz_ext=["first"])
        run = verbs.claim_one()
        api.reschedule_task(verbs.CODE, "1", HOUR)
        held = held_with(ExecutorOptions())
        settler = settler_of(held)
        held.put_end(verbs.done(run, biz_ext=f'["{MIXED[1]}"]'))
        settler.start()
        assert settler.finish(30)
        is_refused = connection.mysql_is_mariadb  # type: ignore[attr-defined]  # MySQL keeps JSON in utf8mb4
        assert verbs.present("1").biz_ext == (["first"] if is_refused else [MIXED[1]])
        assert TaskRun.objects.get().error.startswith("the settlement could not be written" if is_refused else "")
