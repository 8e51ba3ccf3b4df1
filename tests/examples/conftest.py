"""Fixtures: a copy of an example, and a database for it on the server of the run."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.db import connection

from tests.examples.follower import EXAMPLES, Example

IGNORED = shutil.ignore_patterns("__pycache__", "*.sqlite3*", "files", "network")


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder in whose path a socket fits, as in users' projects; in the folders of pytest it may not."""
    with TemporaryDirectory(prefix="ddt-") as folder:
        yield Path(folder)


@pytest.fixture
def copy_of(short_path: Path, own_database: dict[str, Any]) -> Callable[[str], Example]:
    """``copy_of("crawler")``: the example, with the database of this run in its settings."""

    def copy(name: str) -> Example:
        folder = short_path / name
        shutil.copytree(EXAMPLES / name, folder, ignore=IGNORED)
        if own_database:
            [module] = folder.glob("*/settings.py")
            with module.open("a") as stream:
                stream.write(f'DATABASES["default"] = {own_database!r}\n')
        return Example(folder)

    return copy


@pytest.fixture
def own_database(database: str, django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[str, Any]]:
    """An empty database on the server of the run, as an entry of DATABASES; nothing for SQLite, the default."""
    if database == "sqlite":
        yield {}
        return
    name = f"{connection.settings_dict['NAME']}_example"
    with django_db_blocker.unblock():
        on_server(f"DROP DATABASE IF EXISTS {name}")
        on_server(f"CREATE DATABASE {name}")
        kept = ("ENGINE", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")
        yield {**{key: connection.settings_dict[key] for key in kept}, "NAME": name}
        on_server(f"DROP DATABASE {name}")


def on_server(statement: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)
