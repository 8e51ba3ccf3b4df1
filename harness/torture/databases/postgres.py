"""PostgreSQL."""

from pathlib import Path

from harness.torture.databases.served import Served


def create(folder: Path) -> Served:
    return Served("postgres")
