"""Checks of the character sets and encodings of databases and connections."""

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks.checks.options import line_for
from django_delayed_tasks.store.sql.charsets import CHARSET, TextTable, text_tables
from django_delayed_tasks.store.sql.dialects import dialect_of

SQLITE_ENCODING = "UTF-8"
POSTGRES_ENCODING = "UTF8"


def configured_charset_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    """Yield E022, as far as the settings show it."""
    needed = dialect_of(connection).charset
    charset = connection.settings_dict["OPTIONS"].get("charset", needed)
    if needed and charset != needed:
        yield _connection_error(f"DATABASES[{alias!r}]['OPTIONS']['charset'] is {charset!r}.", alias)


def charset_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    """Yield E021, E022 and W021, as a MariaDB or MySQL server reports them."""
    narrow = dialect_of(connection).lossy_charsets()
    if narrow and not any(configured_charset_problems(alias, connection)):
        yield _connection_error(f"Connections to the database {alias!r} have {narrow}.", alias)
    for table in text_tables(connection, apps.get_app_config("django_delayed_tasks").get_models()):
        yield from _table_problems(alias, table)


def _connection_error(problem: str, alias: str) -> Error:
    return Error(
        problem,
        hint="Characters that such a connection lacks are read as '?': a handler would get a number or data other than "
        f"what was added. Do not use SET NAMES, and add to the settings: {line_for(alias, 'charset', CHARSET)}",
        id="django_delayed_tasks.E022",
    )


def _table_problems(alias: str, table: TextTable) -> Iterator[CheckMessage]:
    hint = f"{table.mended}; or, if it is not applied yet, apply migration 0002 of django_delayed_tasks."
    if exact := [column for column in table.wrong if column.is_exact]:
        yield Error(
            f"The table {table.name} in the database {alias!r} has columns that treat some different texts as equal: "
            f"{_listed(exact)}.",
            hint=hint,
            id="django_delayed_tasks.E021",
        )
    elif table.wrong:
        yield Warning(
            f"The table {table.name} in the database {alias!r} has columns that cannot hold all texts: "
            f"{_listed(table.wrong)}.",
            hint=f"Characters that they cannot hold are written as escapes. {hint}",
            id="django_delayed_tasks.W021",
        )


def _listed(columns: list[Any]) -> str:
    return ", ".join(f"{column.name} ({column.collation})" for column in columns)


def encoding_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    """Yield W022, as PostgreSQL reports it."""
    ((encoding,),) = rows(connection, "SHOW server_encoding")
    if encoding != POSTGRES_ENCODING:
        yield Warning(
            f"The PostgreSQL database {alias!r} has the encoding {encoding}.",
            hint="A task with characters that it lacks is refused with an error, and in error texts they are written "
            f"as escapes. Create a database with ENCODING '{POSTGRES_ENCODING}' and move the data with pg_dump.",
            id="django_delayed_tasks.W022",
        )


def file_problems(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    """Yield E023, as an SQLite file has it."""
    ((encoding,),) = rows(connection, "PRAGMA encoding")
    if encoding != SQLITE_ENCODING:
        yield Error(
            f"The SQLite database {alias!r} has the encoding {encoding}.",
            hint="Django cannot read dates and times from it, so that no task would run. Create a new file (its "
            f"default is PRAGMA encoding = '{SQLITE_ENCODING}') and move the data.",
            id="django_delayed_tasks.E023",
        )


def rows(connection: BaseDatabaseWrapper, sql: str) -> list[Any]:
    """Return the rows that the database answers with."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
