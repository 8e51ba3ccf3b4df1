"""The databases under torture, one module each: ``tests.torture.databases.NAME`` has a function ``create(folder)``."""

from importlib import import_module
from pathlib import Path

from tests.torture.databases.base import Database

__all__ = ["Database", "create"]


def create(name: str, folder: Path) -> Database:
    """A private database of this kind, not started yet.

    Raises:
        ModuleNotFoundError: there is no such kind.
    """
    database: Database = import_module(f"tests.torture.databases.{name}").create(folder)
    return database
