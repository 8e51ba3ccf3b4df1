"""Databases with other character sets than the one of the test run, on the same server."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management import call_command
from django.db import connection

from django_delayed_tasks.models import Executor, PausedQueue, Recurrence, Resource, Success, Task, TaskRun, Waiter

APP = "django_delayed_tasks"
WHOLE = {
    "mariadb": ["utf8mb3", "latin1", "gbk", "utf8mb4 COLLATE utf8mb4_unicode_ci"],
    "mysql": [
        "utf8mb3",
        "latin1",
        "gbk",
        *(f"utf8mb4 COLLATE utf8mb4_{c}_ci" for c in ("general", "unicode", "0900_ai")),
    ],
    "postgres": ["UTF8"],
    "sqlite": ["UTF-8"],
}
"""The character sets, by database, with which a migrated database holds every text."""
OURS = (Task, TaskRun, Success, PausedQueue, Recurrence, Executor, Resource, Waiter)


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)


def _on_server(statement: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)


def _create(name: str, charset: str) -> None:
    if connection.vendor == "sqlite":
        with sqlite3.connect(name) as made:
            made.execute(f"PRAGMA encoding = '{charset}'")
            made.execute("CREATE TABLE something (id INTEGER)")
        made.close()
        return
    _drop(name)
    is_postgres = connection.vendor == "postgresql"
    chosen = f"ENCODING '{charset}' LOCALE 'C' TEMPLATE template0" if is_postgres else f"CHARACTER SET {charset}"
    _on_server(f"CREATE DATABASE {_quoted(name)} {chosen}")


def _drop(name: str) -> None:
    if connection.vendor != "sqlite":  # its files go with the folder of the test run
        _on_server(f"DROP DATABASE IF EXISTS {_quoted(name)}")


@contextmanager
def switched_to(name: str) -> Iterator[None]:
    """Within, the default database is this one, in all threads."""
    before = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = name
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = before


@contextmanager
def created(charset: str, without: str | None = None) -> Iterator[str]:
    """A database with this default character set and our tables; its name.

    ``without``: a migration that is left out. Those after it have been made, since today's models need their columns.
    """
    name = f"{connection.settings_dict['NAME']}_{charset.split()[-1]}_{without or ''}".lower()
    _create(name, charset)
    try:
        with switched_to(name):
            if without:
                migrate(_before(without))
                migrate(without, fake=True)
            migrate()
        yield name
    finally:
        _drop(name)


def migrate(migration: str | None = None, fake: bool = False) -> None:
    """Migrate our tables, forwards or backwards."""
    call_command("migrate", APP, *([migration] if migration else []), verbosity=0, skip_checks=True, fake=fake)


def make_up_for(left_out: str) -> None:
    """Make the migration that was left out."""
    migrate(_before(left_out), fake=True)
    migrate(left_out)
    migrate(fake=True)


def _before(migration: str) -> str:
    return f"{int(migration) - 1:04}"


def empty() -> None:
    """Delete all rows of ours."""
    for model in OURS:
        model._base_manager.all().delete()
