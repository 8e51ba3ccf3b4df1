"""The databases under torture, one module each: ``harness.torture.databases.KIND`` has a function ``create``.

Its arguments are a folder and, where the kind has any, the name of a character set, or of a mode.
"""

from importlib import import_module
from pathlib import Path

from harness.torture.databases.base import Database

__all__ = ["KNOWN", "Database", "create"]

KNOWN = (
    "sqlite", "mariadb", "mariadb-latin1", "mysql", "mysql-latin1", "postgres",
    "galera", "groupreplication", "groupreplication-single", "patroni",
)  # fmt: skip
"""What ``--databases`` takes. With "-latin1", that is the default character set of server and database; with "-single",
one node takes all writes."""


def create(name: str, folder: Path) -> Database:
    """A private database, not started yet; ``name`` is one of :data:`KNOWN`."""
    kind, *variety = name.split("-")
    database: Database = import_module(f"harness.torture.databases.{kind}").create(folder, *variety)
    return database
