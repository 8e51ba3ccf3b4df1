"""PostgreSQL."""

from pathlib import Path

from tests.torture.databases.served import Served


def create(folder: Path) -> Served:
    return Served("postgres")
